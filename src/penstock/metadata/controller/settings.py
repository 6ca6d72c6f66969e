"""Changing the settings of topics, brokers, groups and client metrics on a running cluster."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

from penstock.machine.decision import Decision
from penstock.metadata.config_resources import UNSUPPORTED
from penstock.metadata.controller.decision_context import DecisionContext, Refusal
from penstock.metadata.controller.settings_of_elections import consequences
from penstock.metadata.controller.topics import TOO_LARGE
from penstock.metadata.image.image import ConfigResource
from penstock.metadata.records import MetadataRecord
from penstock.metadata.topic_rules import MIN_IN_SYNC
from penstock.model.configs import Operation, ResourceKind
from penstock.model.error import ErrorCode, RequestError
from penstock.model.identity import NodeId
from penstock.model.limit import DECISION_RECORDS_MAX
from penstock.model.settings.broker import BROKER_SETTINGS, parse_broker
from penstock.model.settings.client_metrics import (
    IntervalOutOfRange,
    parse_subscription,
)
from penstock.model.settings.setting import (
    Change,
    InvalidSetting,
    Setting,
    SettingType,
    UnknownSetting,
)
from penstock.model.settings.single_group import SINGLE_GROUP_SETTINGS, validate_group
from penstock.model.settings.topic import TOPIC_SETTINGS, validate_topic
from penstock.model.topic_name import topic_name_error
from penstock.wire.messages import alter_configs as replacing
from penstock.wire.messages import incremental_alter_configs as incremental
from penstock.wire.messages.metadata_records.config import ConfigRecord

Config = Mapping[str, str]
# What APPEND and SUBTRACT look types up in.
KNOWN: Mapping[ResourceKind, Mapping[str, Setting]] = {
    ResourceKind.TOPIC: TOPIC_SETTINGS,
    ResourceKind.BROKER: BROKER_SETTINGS,
    ResourceKind.GROUP: SINGLE_GROUP_SETTINGS,
    ResourceKind.CLIENT_METRICS: {},  # lists are set whole there, as in Apache Kafka
}
Asked = TypeVar("Asked", replacing.AlterConfigsResource, incremental.AlterConfigsResource)


def incremental_alter_configs(
    context: DecisionContext, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[MetadataRecord, incremental.IncrementalAlterConfigsResponse]:
    """Changes single settings; a resource changes wholly or not at all."""
    outcomes = _alter(context, request.resources, _altered_singly)
    reply = incremental.IncrementalAlterConfigsResponse(
        responses=[
            incremental.AlterConfigsResourceResponse(
                error_code=outcome.code if isinstance(outcome, Refusal) else ErrorCode.NONE,
                error_message=outcome.message if isinstance(outcome, Refusal) else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
    )
    records = _records(context, outcomes, request.validate_only)
    return Decision(records=records, reply=reply, framed=True)


def alter_configs(
    context: DecisionContext, request: replacing.AlterConfigsRequest
) -> Decision[MetadataRecord, replacing.AlterConfigsResponse]:
    """Replaces all settings of each resource: those that the request leaves out are removed."""
    outcomes = _alter(context, request.resources, _altered_wholly)
    reply = replacing.AlterConfigsResponse(
        responses=[
            replacing.AlterConfigsResourceResponse(
                error_code=outcome.code if isinstance(outcome, Refusal) else ErrorCode.NONE,
                error_message=outcome.message if isinstance(outcome, Refusal) else None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        ]
    )
    records = _records(context, outcomes, request.validate_only)
    return Decision(records=records, reply=reply, framed=True)


def _alter(
    context: DecisionContext,
    resources: list[Asked],
    altered: Callable[[Config, Asked, Mapping[str, Setting]], Config | Refusal],
) -> list[list[ConfigRecord] | Refusal]:
    """For each resource, the records that change it or why it stays as it is."""
    named = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    outcomes: list[list[ConfigRecord] | Refusal] = []
    for asked in resources:
        if named[asked.resource_type, asked.resource_name] > 1:
            outcomes.append(_invalid("Each resource must appear at most once."))
            continue
        resource = _resource(context, asked.resource_type, asked.resource_name)
        if isinstance(resource, Refusal):
            outcomes.append(resource)
            continue
        before = context.state.config(resource.kind, resource.name)
        after = altered(before, asked, KNOWN[resource.kind])
        if isinstance(after, Refusal):
            outcomes.append(after)
            continue
        error = _error(context, resource, before=before, after=after)
        outcomes.append(error or _changes(resource, before=before, after=after))
    return outcomes


def _altered_singly(
    before: Config, asked: incremental.AlterConfigsResource, known: Mapping[str, Setting]
) -> Config | Refusal:
    names = [config.name for config in asked.configs]
    if len(set(names)) != len(names):
        return _invalid("Error due to duplicate config keys")
    without_value = [
        config.name
        for config in asked.configs
        if config.value is None and config.config_operation != Operation.DELETE
    ]
    if without_value:
        return _invalid(f"Null value not supported for : {', '.join(without_value)}")
    after = dict(before)
    for config in asked.configs:
        try:
            operation = Operation(config.config_operation)
        except ValueError:
            return _invalid(f"Unknown operations type {config.config_operation}")
        if operation == Operation.DELETE:
            after.pop(config.name, None)
            continue
        value = config.value or ""
        if operation != Operation.SET:
            setting = known.get(config.name)
            if setting is None or setting.type != SettingType.LIST:
                return Refusal(
                    code=ErrorCode.INVALID_CONFIG,
                    message=f"Can't {operation.name} to key {config.name} "
                    "because its type is not LIST.",
                )
            present = after.get(config.name, setting.default or "")
            value = _edited(present, value, operation)
        after[config.name] = value
    return after


def _altered_wholly(
    before: Config, asked: replacing.AlterConfigsResource, known: Mapping[str, Setting]
) -> Config | Refusal:
    names = [config.name for config in asked.configs]
    if len(set(names)) != len(names):
        return _invalid("Error due to duplicate config keys")
    without_value = [config.name for config in asked.configs if config.value is None]
    if without_value:
        return _invalid(f"Null value not supported for : {', '.join(without_value)}")
    return {config.name: config.value for config in asked.configs if config.value is not None}


def _edited(present: str, change: str, operation: Operation) -> str:
    """A list with items appended, each once, or taken out."""
    parts = [part for part in present.split(",") if part]
    changed = [part.strip() for part in change.split(",")]
    if operation == Operation.APPEND:
        parts.extend(part for part in dict.fromkeys(changed) if part not in parts)
    else:
        parts = [part for part in parts if part not in changed]
    return ",".join(parts)


def _resource(context: DecisionContext, number: int, name: str) -> ConfigResource | Refusal:
    """The resource that a request names, if it exists and can be altered."""
    state = context.state
    if number == ResourceKind.TOPIC:
        if not name:
            return _invalid("Default topic resources are not allowed.")
        error = topic_name_error(name)
        if error is not None:
            return Refusal(code=ErrorCode.INVALID_TOPIC_EXCEPTION, message=error)
        if name not in state.topics_by_name:
            message = f"The topic '{name}' does not exist."
            return Refusal(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message=message)
        return ConfigResource(ResourceKind.TOPIC, name)
    if number == ResourceKind.BROKER:
        if name and not (name.isascii() and name.isdecimal() and len(name) < 10):
            return _invalid(f"Node id must be an integer, but it is: {name}")
        if name and NodeId(int(name)) not in state.brokers:
            message = f"No broker with id {int(name)} found."
            return Refusal(code=ErrorCode.BROKER_ID_NOT_REGISTERED, message=message)
        return ConfigResource(ResourceKind.BROKER, name and str(int(name)))
    if number == ResourceKind.GROUP:
        if not name:
            return _invalid("Default group resources are not allowed.")
        return ConfigResource(ResourceKind.GROUP, name)
    if number == ResourceKind.CLIENT_METRICS:
        if not name:
            return _invalid("Subscription name can't be empty")
        return ConfigResource(ResourceKind.CLIENT_METRICS, name)
    return _invalid(UNSUPPORTED.get(number, f"Unknown resource type {number}"))


def _error(
    context: DecisionContext, resource: ConfigResource, *, before: Config, after: Config
) -> Refusal | None:
    if resource.kind == ResourceKind.BROKER:
        return _broker_error(context, resource, before=before, after=after)
    if resource.kind == ResourceKind.CLIENT_METRICS:
        return _subscription_error(after)
    validate = validate_topic if resource.kind == ResourceKind.TOPIC else validate_group
    try:
        validate(after, context.settings)
    except InvalidSetting as error:
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=str(error))
    return None


def _subscription_error(after: Config) -> Refusal | None:
    try:
        parse_subscription(after)
    except (UnknownSetting, IntervalOutOfRange) as error:
        return _invalid(str(error))
    except InvalidSetting as error:
        return Refusal(code=ErrorCode.INVALID_CONFIG, message=str(error))
    return None


def _broker_error(
    context: DecisionContext, resource: ConfigResource, *, before: Config, after: Config
) -> Refusal | None:
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    for name in changed:
        setting = BROKER_SETTINGS.get(name)
        if setting is None:
            unknown = UnknownSetting(kind="broker", name=name, known=BROKER_SETTINGS)
            return Refusal(code=ErrorCode.INVALID_CONFIG, message=str(unknown))
        if name == MIN_IN_SYNC and resource.name:
            return Refusal(
                code=ErrorCode.INVALID_CONFIG,
                message=f"Broker-level {MIN_IN_SYNC} cannot be altered while ELR is enabled.",
            )
        if name == MIN_IN_SYNC and name not in after:
            return Refusal(
                code=ErrorCode.INVALID_CONFIG,
                message=f"Cluster-level {MIN_IN_SYNC} cannot be removed while ELR is enabled.",
            )
        if setting.change == Change.AT_START:
            return _invalid(f"Cannot update these configs dynamically: {name}")
        if setting.change == Change.PER_BROKER and not resource.name:
            return _invalid(
                "Cannot update these configs at default cluster level, "
                f"broker id must be specified: {name}"
            )
    try:
        parse_broker({**context.settings.given, **after})
    except InvalidSetting as error:
        return _invalid(str(error))
    return None


def _changes(resource: ConfigResource, *, before: Config, after: Config) -> list[ConfigRecord]:
    return [
        ConfigRecord(
            resource_type=resource.kind,
            resource_name=resource.name,
            name=name,
            value=after.get(name),
        )
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def _records(
    context: DecisionContext, outcomes: list[list[ConfigRecord] | Refusal], validate_only: bool
) -> tuple[MetadataRecord, ...]:
    if validate_only:
        return ()
    records = tuple(
        record for outcome in outcomes if not isinstance(outcome, Refusal) for record in outcome
    )
    if len(records) > DECISION_RECORDS_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, TOO_LARGE)
    return (*records, *consequences(context, records))


def _invalid(message: str) -> Refusal:
    return Refusal(code=ErrorCode.INVALID_REQUEST, message=message)
