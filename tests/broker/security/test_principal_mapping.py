"""ssl.principal.mapping.rules: from a certificate's subject to a user's name.

The expected names are what Apache Kafka 4.3.1 makes of the same rules and subjects.
"""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.configs.broker_configs import read_broker_config
from broker.security.principal_mapping import NoRuleApplies, PrincipalMapping
from storage.configs.config_types import InvalidConfig

FOUR_RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?)$/$1@$2/L,"
    " RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L, DEFAULT"
)
TWELVE_GROUPS = "RULE:" + "(.)" * 12 + "/$12-$13-$120/"


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        ("DEFAULT", "CN=alice,OU=dev,O=Example", "CN=alice,OU=dev,O=Example"),
        (FOUR_RULES, "CN=Alice,OU=ServiceUsers,O=x", "Alice"),
        (FOUR_RULES, "CN=Duke,OU=JavaSoft,O=Sun", "duke@javasoft"),
        (FOUR_RULES, "UID=7,CN=Bob.B", "bob.b"),
        (FOUR_RULES, "UID=7", "UID=7"),
        ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/U", "CN=Duke,OU=JavaSoft", "DUKE@JAVASOFT"),
        ("RULE:.*/x/", "CN=a", "xx"),  # the empty end of it matches, too
        ("RULE:CN=(.*)/$0-$1/", "CN=a", "CN=a-a"),
        ("RULE:CN=(.*)/$1@$4/", "CN=a", "a@$4"),
        ("RULE:CN=(a)/$12/", "CN=a", "a2"),
        (TWELVE_GROUPS, "abcdefghijkl", "l-a3-l0"),
        (r"RULE:CN=(a)/\$1/", "CN=a", "$1"),
        (r"RULE:CN=a\/b/x\/y/", "CN=a/b", "x/y"),
        ("RULE:CN=((a)|(b))/[$2][$3]/", "CN=a", "[a][]"),
        ("RULE:(CN=)?a?/<$1>/", "CN=a", "<CN=><>"),
        ("RULE:^CN=(.*)/$1/U", "CN=straße", "STRASSE"),
        (" RULE:CN=(a)/ $1 / ,", "CN=a", " a "),
        ("RULE:CN=([^,]+),.*/$1/,RULE:CN=b/z/", "CN=b", "z"),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_counts(
    rules: str, subject: str, user: str
) -> None:
    assert PrincipalMapping(rules).name(subject) == user


@pytest.mark.parametrize(
    ("rules", "subject"),
    [
        ("RULE:CN=bob/$1/", "CN=alice"),
        ("RULE:CN=alice/x/", "CN=alice,O=Example"),
        (r"RULE:^CN=(\w+)/$1/", "CN=müller"),
    ],
)
def test_without_a_rule_that_matches_nobody_gets_a_name(rules: str, subject: str) -> None:
    with pytest.raises(NoRuleApplies, match=subject):
        PrincipalMapping(rules).name(subject)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("RULE:CN=(.*)/$1", "use RULE:pattern/replacement/"),
        ("RULE:CN=(.*)/$1/X", "use RULE:pattern/replacement/"),
        ("DEFAULT, RULE:CN=(.*)/$1/LU", "is no rule"),
        ("default", "is no rule"),
        ("", "use RULE:pattern/replacement/ or DEFAULT"),
        ("RULE:CN=(a/x/", "missing \\)"),
        ("RULE:CN=(?=a)a/x/", "none of RE2's"),
        (r"RULE:CN=(a)\1/x/", "none of RE2's"),
        ("RULE:CN=(?P<n>a)/${n}/", "number of a group"),
    ],
)
def test_a_mistake_in_the_rules_is_told_at_the_start(rules: str, told: str) -> None:
    with pytest.raises(InvalidConfig, match=told) as mistakes:
        read_broker_config({"ssl.principal.mapping.rules": rules})
    assert "ssl.principal.mapping.rules" in str(mistakes.value)


@pytest.mark.alone
def test_no_subject_takes_long() -> None:
    """A pattern with which a backtracking engine would not be done for years."""
    mapping = PrincipalMapping("RULE:^(([a-z])+.)+[A-Z]([a-z])+$/$1/, DEFAULT")
    subject = "a" * 50_000
    began_s = time.process_time()
    assert mapping.name(subject) == subject
    assert time.process_time() - began_s < 1


@given(name=st.text(max_size=50))
def test_any_subject_has_a_name_by_default(name: str) -> None:
    assert PrincipalMapping("RULE:CN=only/x/, DEFAULT").name(name) in (name, "x")
