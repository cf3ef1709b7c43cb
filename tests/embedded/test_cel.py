"""The expression language: values, refusals by name, and the budget that bounds an evaluation."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stromboli.embedded.cel import Budget, CelError, CompileError, OverBudget, compiled

STEPS = 1_000_000
SELF = {
    "name": "a", "count": 3, "share": 0.5, "labels": {"app": "web", "a/b": "c"}, "empty": None,
    "tasks": [{"name": "x", "replicas": 2}, {"name": "y"}], "tags": ["b", "a"],
}  # fmt: skip


def value_of(expression: str, **variables: Any) -> Any:
    known = {"self": SELF} | variables
    return compiled(expression, tuple(known)).value(known, Budget(STEPS))


VALUES: list[tuple[str, Any]] = [
    # arithmetic and comparisons
    ("1 + 2 * 3 - 4 / 2", 5), ("-7 / 2", -3), ("-7 % 3", -1), ("7.0 / 2.0", 3.5), ("-(-3)", 3), ("0x1F", 31),
    ("1 < 2 && 2.5 > 2 && 'a' < 'b'", True), ("1 == 1.0", True), ("1 == true", False), ("[1, 'a'] == [1, 'a']", True),
    ("{'a': [1]} == {'a': [1.0]}", True), ("[true] == [1]", False), ("null == self.empty", True), ("1 != 2", True),
    ("true ? 1 : 2", 1), ("!false", True), ("false || true && false", False), ("'a' + 'b'", "ab"),
    ("[1] + [2]", [1, 2]), ("-9223372036854775808", -(2**63)), ("2 in [1, 2]", True), ("'app' in self.labels", True),
    # errors do not count if another term decides
    ("self.missing == 1 || true", True), ("false && self.missing == 1", False), ("true || 1", True),
    ("[1, 2].exists(x, x == 2 || self.missing)", True), ("[0, 1].all(x, x == 1 && self.missing)", False),
    # fields
    ("self.tasks[0].name", "x"), ("self.labels['a/b']", "c"), ("has(self.name) && !has(self.missing)", True),
    ("self.?missing.orValue('none')", "none"), ("self.?name.orValue('none')", "a"),
    ("self.?labels.app.hasValue()", True),
    ("self.tasks[?5].hasValue()", False), ("self.labels[?'app'].value()", "web"),
    ("[?self.?missing, ?self.?name]", ["a"]), ("{?'a': self.?missing, 'b': 1}", {"b": 1}),
    ("self.?name.or(optional.of('x')).value()", "a"), ("optional.none().or(optional.of('x')).value()", "x"),
    ("optional.ofNonZeroValue('').hasValue()", False), ("self.?name.optMap(n, n + '!').value()", "a!"),
    ("self.?tasks.optFlatMap(t, t[?1]).name.value()", "y"),
    # macros
    ("self.tasks.all(t, has(t.name))", True), ("self.tasks.exists_one(t, has(t.replicas))", True),
    ("self.tasks.filter(t, has(t.replicas)).map(t, t.name)", ["x"]), ("[1, 2, 3].map(n, n > 1, n * n)", [4, 9]),
    ("self.labels.all(k, k.size() > 0)", True), ("[5, 6].all(i, v, v == i + 5)", True),
    ("{'a': 1}.exists(k, v, k == 'a' && v == 1)", True), ("[5, 6].existsOne(i, v, i == 1)", True),
    ("[5, 6].transformList(i, v, i > 0, v * 2)", [12]), ("{'a': 1}.transformMap(k, v, v + 1)", {"a": 2}),
    ("[5].transformMapEntry(i, v, {string(v): i})", {"5": 0}), ("cel.bind(x, 2, x * x)", 4),
    ("[[1, 2], [3]].all(a, a.all(b, b > 0))", True), ("[1, 2].map(x, [1, 2].map(y, x * y))", [[1, 2], [2, 4]]),
    # strings
    ("'héllo'.size()", 5), ("'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')", True),
    ("'hello mellow'.indexOf('ello', 2)", 7), ("'hello mellow'.lastIndexOf('ello')", 7), ("'hello'.indexOf('')", 0),
    ("'hello hello'.replace('he', 'we', 1)", "wello hello"), ("'a,b,c'.split(',', 2)", ["a", "b,c"]),
    ("'ab'.split('')", ["a", "b"]), ("['a', 'b'].join('-')", "a-b"), ("'tacocat'.substring(0, 4)", "taco"),
    ("'TacoCÆt'.lowerAscii()", "tacocÆt"), ("'  \\ttrim\\n '.trim()", "trim"), ("'abc'.charAt(3)", ""),
    ("strings.quote('a\"b')", '"a\\"b"'), ("'abc'.matches('^a.c$')", True), ("'xabcx'.matches('b+')", True),
    ("'%s has %d of %.1f, %x %b %o'.format(['a', 3, 2.25, 255, 5, 8])", "a has 3 of 2.2, ff 101 10"),
    ("'%s'.format([[1, 'a', 2.5, {'k': true}]])", '[1, "a", 2.500000, {"k":true}]'),
    (r"'\u00e9\x41\101\n'", "éAA\n"), (r"r'\n'", "\\n"), ("'''it's'''", "it's"), (r"b'\xff'", b"\xff"),
    # lists and sets
    ("[1, 2].sum()", 3), ("[].sum()", 0), ("[3, 1].min()", 1), ("['b', 'a'].max()", "b"), ("[1, 2].isSorted()", True),
    ("[1, 2, 1].indexOf(1)", 0), ("[1, 2, 1].lastIndexOf(1)", 2), ("[2, 1].sort()", [1, 2]), ("[1, 1].distinct()", [1]),
    ("[[1], [2]].flatten()", [1, 2]), ("[1, 2, 3].slice(1, 3)", [2, 3]), ("lists.range(3)", [0, 1, 2]),
    ("[1, 2].reverse()", [2, 1]), ("[1, 2].first().value()", 1), ("[].last().hasValue()", False),
    ("sets.contains([1, 2], [2])", True), ("sets.intersects([1], [2])", False),
    ("sets.equivalent([1, 2], [2, 1, 1])", True),
    # quantities, conversions, times
    ("quantity('1Gi').compareTo(quantity('1G'))", 1), ("quantity('500m').add(quantity('0.5')).asInteger()", 1),
    ("quantity('1k').sub(1).isLessThan(quantity('1e3'))", True), ("isQuantity('1 Gi')", False),
    ("isQuantity('.5')", True),
    ("quantity('1.5').isInteger()", False), ("quantity('-2').sign()", -1),
    ("quantity('1n').asApproximateFloat()", 1e-9),
    ("quantity('2') == quantity('2000m')", True), ("int('-7')", -7), ("int(2.9)", 2), ("double('1.5')", 1.5),
    ("string(1.5) + string(true) + string(7)", "1.5true7"), ("string(1e7)", "1e+07"), ("bool('true')", True),
    ("string(bytes('é'))", "é"), ("type(1) == int && type([]) == list", True), ("dyn(1) == 1", True),
    ("duration('1h30m') > duration('80m')", True), ("string(duration('1h1.5s'))", "3601.5s"),
    ("duration('-1m').getSeconds()", -60),
    ("timestamp('2024-02-29T23:30:00Z').getDayOfYear()", 59),
    ("timestamp('2024-02-29T23:30:00Z').getHours('+01:00')", 0),
    ("string(timestamp('2024-01-01T00:00:00Z') + duration('36h'))", "2024-01-02T12:00:00Z"),
    ("timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')", True),
    ("jsonpatch.escapeKey('a/b~c')", "a~1b~0c"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"), [one for one in VALUES if one[1] is not None], ids=lambda one: str(one)[:60]
)
def test_values(text: str, value: Any) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("self.missing", "no such key: missing"), ("[1][1]", "index out of bounds: 1"), ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"), ("9223372036854775807 + 1", "integer overflow"), ("1 + 'a'", "no such overload"),
        ("1 + 1.0", "no such overload: int, double"), ("self.name.name", "no such overload: string"), ("!1", "no such"),
        ("[1].all(x, x)", "no such overload: int"), ("1 && true", "no such overload: int"), ("1 ? 2 : 3", "no such"),
        ("quantity('x')", "quantities must match"), ("quantity('1.5').asInteger()", "cannot convert"),
        ("[].min()", "min called on empty list"), ("'a' < 1", "no such overload"), ("int('x')", "type conversion"),
        ("'abc'.substring(2, 1)", "invalid substring range"), ("optional.none().value()", "dereference"),
        ("{'a': 1, 'a': 2}", "duplicate key"), ("{1.5: 2}", "unsupported key type"), ("duration('1 h')", "conversion"),
        ("timestamp('yesterday')", "conversion"), ("'abc'.matches(self.name + '(')", "error parsing regexp"),
        ("lists.range(100000000)", "the most is"), ("true < 1", "no such overload"), ("[1, 'a'].sort()", "no such"),
    ],
)  # fmt: skip
def test_what_has_no_value(text: str, words: str) -> None:
    with pytest.raises(CelError, match=words.replace("(", r"\(")):
        value_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("url('http://x').getHost()", "'url': this server has no such function"), ("self.name.find('a')", "'find'"),
        ("ip('10.0.0.1')", "'ip'"), ("authorizer.group('')", "undeclared reference to 'authorizer'"),
        ("math.greatest(1, 2)", "undeclared reference to 'math'"), ("1u", "unsigned numbers"), ("x", "'x'"),
        ("self.name.size(1)", "no matching overload for 'size' with 1 arguments"), ("has(self)", "needs a field"),
        ("has(self.?name)", "without .?"), ("self.tasks.all(1, true)", "names of variables"), ("1 +", "found the end"),
        ("'abc", "syntax error at character 1"), ("self.name.matches('(?=a)')", "cannot be matched here"),
        ("self.name.matches('[[:alpha:]]')", "classes such as"), ("'%e'.format([1.0])", "does not know %e"),
        ("'%s'.format([])", "1 clauses, and 0 values"), ("Wrong{a: 1}", "undeclared reference to 'Wrong'"),
        ("JSONPatch{what: 1}", "undefined field 'what' of JSONPatch"), ("namespace", "reserved word"),
        ("-!true", "expected a value"),
        ("9223372036854775808", "too large"), ("(" * 60 + "1" + ")" * 60, "nested more than 50 levels"),
        (" + ".join(["1"] * 150), "in a row"), ("1" * 100_001, "may have 100000"), ("self.", "expected a name"),
    ],
)  # fmt: skip
def test_what_is_refused_when_it_is_written(text: str, words: str) -> None:
    with pytest.raises(CompileError) as raised:
        compiled(text, ("self",))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))",
        "self.map(a, self.map(b, self.map(c, [a, b, c]))).size() > 0",
        "lists.range(1000000).all(x, x >= 0)",
        "self.all(a, 'aaaaaaaaaaaaaaaaaaaa'.replace('', 'bbbbbbbbbbbbbbbbbbbbbb').replace('', text) != '')",
        "self.all(a, text.matches('(a+)+$') || text.contains('x'))",
        "self.transformList(i, v, self).flatten().distinct().size() > 0",
        "self.all(a, self == self)",
    ],
)
def test_no_evaluation_takes_long(text: str) -> None:
    with pytest.raises(OverBudget):
        value_of(text, self=list(range(2_000)), text="a" * 1_000)


def test_a_budget_is_for_several_evaluations() -> None:
    program, budget = compiled("self.all(x, x > 0)", ("self",)), Budget(1_000)
    assert program.value({"self": [1] * 100}, budget) is True
    assert program.value({"self": [1] * 100}, budget) is True
    with pytest.raises(OverBudget):
        program.value({"self": [1] * 100}, budget)


def test_nothing_that_somebody_writes_ends_in_another_error() -> None:
    random = Random(3)
    pieces = ["self", "self.name", "1", "'a'", "(", ")", "[", "]", "{", "}", ".", ",", "?", ":", "+", "-", "!", "&&",
              "||", "in", "==", "all", "has", "x", "map", "size()", "Object", "null", ".?", "[?", "\\", "'", "b'a'",
              "1.5", "self.tasks", ".all(x, x)", ".map(k, v, k)", "cel.bind", "string", "timestamp('a')"]  # fmt: skip
    values = 0
    for _ in range(20_000):
        text = " ".join(random.choice(pieces) for _ in range(random.randint(1, 8)))
        try:
            value_of(text)
            values += 1
        except (CompileError, CelError, OverBudget):
            continue
    assert values > 500
