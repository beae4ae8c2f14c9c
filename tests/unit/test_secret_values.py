"""A secret of the environment is in no text: not in a record, a report, a script or a line."""

import ast

import pytest

from compilegate.observe import error_text, failures
from compilegate.processes.child_output import output_of
from compilegate.records.run import encode
from compilegate.records.secret_values import masker
from compilegate.records.variables import HIDDEN
from compilegate.triage.report import cleaning
from tests.unit.making import make_failed_observation

TOKEN = "hunter2-SECRET-tok"
SAID = f"GET https://models.acme.example/v1?key={TOKEN}: 401"


@pytest.fixture
def token(monkeypatch):
    monkeypatch.setenv("ACME_TOKEN", TOKEN)


@pytest.mark.parametrize(
    "name", ["ACME_TOKEN", "api_key", "MY_SECRET_2", "PGPASSWORD_DB_PASSWD", "X-Auth", "APIKEY"]
)
def test_a_value_whose_name_says_that_it_is_secret_is_taken_out(name):
    assert masker({name: TOKEN})(f"at {TOKEN}!") == f"at {HIDDEN}!"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GIT_AUTHOR_NAME", "somebody"),
        ("KEYBOARD", "us-intl"),
        ("ACME_TOKENIZER", "sentencepiece"),
        ("SSH_AUTH_SOCK", "/run/user/agent.1"),
        ("USE_TOKEN", "Disabled"),
        ("CACHE_KEY", "1234567"),
        ("PIN_SECRET", "abc12"),
    ],
    ids=["author", "keyboard", "tokenizer", "path", "switch", "number", "short"],
)
def test_other_values_stay(name, value):
    text = f"the text has {value} in it"
    assert masker({name: value})(text) == text


def test_a_password_of_letters_is_no_part_of_other_words():
    masked = masker({"DB_PASSWORD": "gradient"})
    assert masked("user gradient: wrong gradients") == f"user {HIDDEN}: wrong gradients"


@pytest.mark.usefixtures("token")
def test_a_record_holds_no_secret_and_keeps_its_names(monkeypatch):
    monkeypatch.setenv("ODD_KEY", "resnet18")
    case = "resnet18-cpu-infer-f32-default-static"
    made = make_failed_observation("raised", case, message=SAID, traceback=f"E: {SAID}")
    line = encode(made)
    assert TOKEN not in line
    assert line.count(HIDDEN) == 2
    assert f'"{case}"' in line


@pytest.mark.usefixtures("token")
def test_a_message_is_masked_before_it_is_cut(tmp_path):
    try:
        raise RuntimeError("x" * 205 + f" {TOKEN} " + "y" * 400)
    except RuntimeError as error:
        texts = [error_text.of(error), failures.traceback_of(error)]
    log = tmp_path / "log"
    log.write_text(f"fetching with {TOKEN}\n")
    with log.open("rb") as file:
        texts.append(output_of(file))
    for text in texts:
        assert "hunter" not in text
        assert HIDDEN in text


@pytest.mark.usefixtures("token")
def test_reports_scripts_and_lines_of_the_terminal_show_no_secret():
    for clean in (cleaning.cleaned, cleaning.without_secrets):
        assert clean(clean(SAID)) == f"GET https://models.acme.example/v1?key={HIDDEN}: 401"
        assert clean(f"https://bob:{TOKEN}@host/x") == "https://host/x"
    code = f'TOKEN = "{TOKEN}"\nADDRESS = "https://me:{TOKEN}@host/x?key={TOKEN}"\n'
    clean = cleaning.cleaned_code(code)
    ast.parse(clean)
    assert TOKEN not in clean


def test_the_query_of_an_address_has_no_secret_whatever_the_environment():
    text = "https://host/v1?key=a1b2&size=3&token=c3d4&x-sig=e5f6#top, as secretive: exit status 1"
    shown = cleaning.without_secrets(text)
    assert shown == text.replace("a1b2", HIDDEN).replace("c3d4", HIDDEN).replace("e5f6", HIDDEN)


def test_a_line_of_the_terminal_keeps_its_paths():
    line = "/home/someone/.triage/red/1-net-forward: Dynamo, net.py:10, script verified, 3 s"
    assert cleaning.without_secrets(line) == line
