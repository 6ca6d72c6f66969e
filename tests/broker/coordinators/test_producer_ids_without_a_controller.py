"""No controller is active, and a coordinator has no producer id left: its client asks again."""

from pathlib import Path
from typing import cast

from penstock.model.error import ErrorCode
from penstock.node.build import OpenNode
from penstock.wire.messages.find_coordinator import FindCoordinatorRequest
from penstock.wire.messages.init_producer_id import InitProducerIdRequest
from rig.raw_producer import NOT_YET, TRANSACTION_KEY, Pipeline
from rig.running_node import running_node


def test_a_transactional_producer_is_told_to_try_again(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        pipeline = Pipeline(node.bootstrap)
        find = FindCoordinatorRequest(coordinator_keys=["payments"], key_type=TRANSACTION_KEY)
        while pipeline.ask(find, version=4).coordinators[0].error_code in NOT_YET:
            pass
        inside = cast(OpenNode, node.node._running)
        node.run(inside.local.close())
        request = InitProducerIdRequest(transactional_id="payments", transaction_timeout_ms=60_000)
        answer = pipeline.ask(request, version=5)
        assert ErrorCode(answer.error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        pipeline.close()
