"""The names that subjects are made of, read from the schemas of a registry."""

import json

import pytest

from broker.schemas.schema_subjects import type_names
from storage.configs.subject_strategies import STRATEGY_NAMES, SubjectStrategy, strategy_of

PROTOBUF = """
syntax = "proto3";
package shop.v1; // message Nobody {
/* message Neither { } */
option java_package = "message Quoted {";
enum Kind { A = 0; }
message Order {
  message Line { string name = 1; }
  oneof message { Line line = 1; int32 count = 2; }
  map<string, Line> lines = 3;
}
message Refund {}
service Shop { rpc Buy (Order) returns (Refund) { option deadline = 3; } }
"""


def test_a_strategy_is_named_by_its_class_with_or_without_package() -> None:
    assert {strategy_of(name) for name in STRATEGY_NAMES} == set(SubjectStrategy)
    assert len(STRATEGY_NAMES) == 2 * len(SubjectStrategy)


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        ({"type": "record", "name": "Order", "namespace": "shop", "fields": []}, {"shop.Order"}),
        ({"type": "record", "name": "a.Order", "namespace": "shop", "fields": []}, {"a.Order"}),
        ({"type": "record", "name": "Order", "fields": []}, {"Order"}),
        (
            ["null", {"type": "enum", "name": "Kind", "symbols": []}, "shop.Order"],
            {"Kind", "shop.Order"},
        ),
        ("string", set()),
        ({"type": "array", "items": "int"}, set()),
        ({"type": "record", "name": 3}, set()),
    ],
)
def test_avro_types_have_full_names(schema: object, names: set[str]) -> None:
    assert type_names({"schema": json.dumps(schema)}) == names


def test_a_json_schema_is_named_by_its_title() -> None:
    titled = {"schemaType": "JSON", "schema": '{"title": "Order", "type": "object"}'}
    assert type_names(titled) == {"Order"}
    assert type_names({"schemaType": "JSON", "schema": "true"}) == set()


def test_a_protobuf_schema_has_all_its_messages() -> None:
    answer = {"schemaType": "PROTOBUF", "schema": PROTOBUF}
    assert type_names(answer) == {"shop.v1.Order", "shop.v1.Order.Line", "shop.v1.Refund"}


@pytest.mark.parametrize(
    "answer", [None, [], {}, {"schema": 1}, {"schema": "{"}, {"schema": "[" * 100_000}]
)
def test_what_is_no_schema_has_no_names(answer: object) -> None:
    assert type_names(answer) == set()
