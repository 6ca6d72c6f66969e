"""What `penstock top --format json` prints. Pure."""

from penstock.cli.top_rows import GroupRow, NodeRow, Picture, ProblemRow, TopicRow


def picture_value(picture: Picture, *, top: int) -> dict[str, object]:
    """With the first `top` topics, groups and problems; `totals` says how many there are."""
    return {
        "cluster_id": picture.cluster_id,
        "controller": picture.controller,
        "seconds": picture.seconds,
        "totals": {
            "nodes": len(picture.nodes),
            "topics": len(picture.topics),
            "groups": len(picture.groups),
            "problems": len(picture.problems),
        },
        "nodes": [_node(one) for one in picture.nodes],
        "topics": [_topic(one) for one in picture.topics[:top]],
        "groups": [_group(one) for one in picture.groups[:top]],
        "problems": [_problem(one) for one in picture.problems[:top]],
        "unknown": list(picture.unknown),
    }


def _node(row: NodeRow) -> dict[str, object]:
    return {
        "id": row.node_id,
        "host": row.host,
        "port": row.port,
        "rack": row.rack,
        "controller": row.is_controller,
        "leaders": row.leaders,
        "replicas": row.replicas,
        "log_bytes": row.log_bytes,
        "state": row.state.value,
    }


def _topic(row: TopicRow) -> dict[str, object]:
    return {
        "topic": row.name,
        "partitions": row.partitions,
        "records_per_second": _rounded(row.records_per_second),
        "bytes_per_second": _rounded(row.bytes_per_second),
        "size_bytes": row.size_bytes,
    }


def _group(row: GroupRow) -> dict[str, object]:
    return {
        "group": row.group_id,
        "type": row.kind,
        "state": row.state,
        "members": row.members,
        "lag": row.lag,
    }


def _problem(row: ProblemRow) -> dict[str, object]:
    return {"problem": row.kind.value, "about": row.about, "detail": row.detail}


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
