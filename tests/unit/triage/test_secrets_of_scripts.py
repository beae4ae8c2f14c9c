"""A script holds no secret that its code has written down, and still runs; other texts stay."""

import ast

import pytest

from compilegate.records.variables import HIDDEN
from compilegate.triage.findings import Findings
from compilegate.triage.report import cleaning, issue
from compilegate.triage.scripts.running import Ended, Verified
from compilegate.triage.scripts.script import Script
from tests.unit.failing import A, wrong
from tests.unit.making import make_environment
from tests.unit.triage.test_workarounds import suspect_of

TOKEN = "abcdef-SECRET-ghijkl"
WEB_TOKEN = "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKxwRJSMeK"
#: Code, the secrets in it, and what else stays of it.
LITERALS = {
    "query": ("self.url = 'https://h.example/x?key=url222&v=2'", ["url222"], "h.example/x?key="),
    "f-string": ("u = f'{base}?v={v}&X-Amz-Signature=sig333&q=1'", ["sig333"], "?v={v}&"),
    "signed": ("u = f'X-Amz-Signature=sig333'", ["sig333"], "X-Amz-Signature="),
    "tuple": (
        "self.passwd, self.api_secret, self.n = ('pw-666', 'sec-777', 8)",
        ["pw-666", "sec-777"],
        ", 8)",
    ),
    "nested": ("(a, (b, token)), *c = ('x1', ('x2', 'se1')), 3", [], "'x2'"),
    "web token": (f"header = ['Bearer {WEB_TOKEN}', 3]", [WEB_TOKEN], "'Bearer "),
    "Slack": ("hook = 'xoxb-1234-5678-abcd'", ["xoxb-1234-5678-abcd"], "hook = "),
    "key": ("d = {'passwd': 'pw1', 'other': 'kept'}", ["pw1"], "'other': 'kept'"),
    "keyword": ("f(api_secret='pw1', mode='kept')", ["pw1"], "mode='kept'"),
    "default": ("def f(a='kept', *, api_key: str = 'pw1'): pass", ["pw1"], "a='kept'"),
    "argument": ("os.environ.setdefault('API_KEY', 'pw1')", ["pw1"], "setdefault('API_KEY', "),
    "either": ("token = os.getenv('MY_TOKEN') or 'pw1'", ["pw1"], "os.getenv('MY_TOKEN') or"),
    "bytes": ("secret = b'pw1'.hex()", ["pw1"], ".hex()"),
    "returned": ("def api_key():\n    return 'pw1'", ["pw1"], "def api_key()"),
    "compared": ("if password == 'pw1': pass", ["pw1"], "if password =="),
    "comment": ("x = 'kept'  # é password: pw1\ny = 1", ["pw1"], "x = 'kept'  # é password: "),
    "document": ('def f():\n    """Of\n\n    f: password=pw1\n    """', ["pw1"], "Of\n\n    f: "),
    "é": ("é = 'é'; api_key = 'pw1'; z = 'é'", ["pw1"], "; z = 'é'"),
}
HARMLESS = """\
url = "https://github.com/pytorch/pytorch/issues/1?foo=bar&page=2&v=3&q=key"
cls_token = nn.Parameter(torch.zeros(1, 1, 64))  # tokens=10, as secretive
tokenizer, pad_token, tokens = "bert-base", "<pad>", ["the", "cat"]
run(tokens=10, key="attention", auth=None, mode="reduce-overhead")
lib.define("token::mix(Tensor x, int num_tokens=16, str? token=None) -> Tensor")
print(f"tokens: {n} of {m}, password={x} y" + "abc" + 'def' f"{x!r:>{w}}" + name)
shapes = {"key": "weight", "query": 'bias', "n": b"\\x00\\xff"}
"""


@pytest.mark.parametrize("name", LITERALS)
def test_a_literal_that_is_a_secret_is_taken_out_and_others_stay(name):
    code, secrets, rest = LITERALS[name]
    clean = cleaning.cleaned_code(code)
    ast.parse(clean)
    assert rest in clean
    for secret in secrets:
        assert secret not in clean
        assert secret not in cleaning.cleaned(f"Line `zoo.py:3`: `{code}`") or "\n" in code
    assert clean.count(HIDDEN) == len(secrets) or name == "nested"
    assert cleaning.cleaned_code(clean) == clean


def test_code_without_secrets_stays_as_it_is():
    assert cleaning.cleaned_code(HARMLESS) == HARMLESS
    assert not cleaning.secrets_in(HARMLESS)


@pytest.mark.parametrize(
    "code",
    [
        "x = 'abcdef-SECRET' + '-ghijkl'",
        "x = 'abcdef-' 'SECRET-ghijkl'",
        "x = ('abcdef-'\n     # a comment\n     'SECRET-ghijkl')",
        "x = 'a' + y + 'abcdef-' + ('SECRET-' + f'ghijkl{y}')",
        "x = ''.join(['abcdef-', 'SECRET-ghijkl'])",
        "x = b'abcdef-' + b'SECRET-ghijkl'",
        'x = f\'{get("abcdef-" + "SECRET-ghijkl")}\'',
        "x = 'abcdef-SECRET-\\x67hijkl'",
        "x = 'abcdef-SECRET-ghijkl'",
    ],
)
def test_a_secret_of_the_environment_is_found_in_whatever_parts(monkeypatch, code):
    monkeypatch.setenv("CUSTOMER_API_TOKEN", TOKEN)
    clean = cleaning.cleaned_code(f"{code}\nz = 'abcdef-'")
    ast.parse(clean)
    assert "SECRET-" not in clean
    assert HIDDEN in clean
    assert clean.endswith("\nz = 'abcdef-'")
    monkeypatch.delenv("CUSTOMER_API_TOKEN")
    assert cleaning.cleaned_code(code) == code


def test_what_is_computed_within_a_text_stays():
    code = "x = 'https://h/' + path(1) + f'?key=url222&n={n!r:>3}' + '&v=1'"
    clean = cleaning.cleaned_code(code)
    shown = eval(clean.removeprefix("x = "), {"path": str, "n": 7})
    assert shown == f"https://h/1?key={HIDDEN}&n=  7&v=1"


def report(text):
    script = Script(text=text, origin="the recipe")
    verified = Verified(Ended(1, "GET failed: pw-tuple-666", 1.0), Ended(0, "", 1.0), "off")
    made = Findings(script=script, verified=verified)
    shown = cleaning.cleaned_code(text)
    return issue.text(suspect_of(wrong(A)), made, make_environment(), "observe", shown)


def test_a_report_says_that_its_script_has_literals_replaced():
    text = report("passwd = 'pw-tuple-666'\n")
    assert f"look like secrets read *{HIDDEN}*. Triage ran the script in this form." in text
    assert "pw-tuple-666" not in text, "what the script prints has it, too"
    assert f"passwd = '{HIDDEN}'" in text
    healthy = report("words = 'pw-tuple-666'\n")
    assert "look like secrets" not in healthy
    assert "GET failed: pw-tuple-666" in healthy


def test_a_word_that_a_script_gives_to_a_secret_stays_in_the_report():
    text = report("my_token = 'forward'\n")
    assert f"my_token = '{HIDDEN}'" in text
    assert "\nforward: " in text
