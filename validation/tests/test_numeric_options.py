"""Numbers on the command line that mean nothing: one line that names the option, before anything is read."""

import pytest

from validation import cli, flips_command, runner
from validation.sweep import run as sweep_run

NONSENSE = {
    "flips": {
        "--length": ("0", "-1", "1", "99999999"),
        "--prompts": ("0", "-1", "99999999"),
        "--group": ("0", "-1", "1000"),
    },
    "validate": {
        "--length": ("0", "-1", "1"),
        "--prompts": ("0", "-1"),
        "--workers": ("0", "-1", "1000000"),
        "--window": ("-1", "100000000000"),
        "--sinks": ("-1",),
        "--key-bits": ("nan", "inf", "-1", "0"),
        "--value-bits": ("nan", "0"),
        "--kl-budget": ("nan", "inf", "-1", "0"),
        "--top1-budget": ("nan", "0", "2"),
        "--seed": ("-1", str(2**63)),
        "--rotation-seed": ("-1", str(2**64)),
    },
    "sweep": {"--prompts": ("0", "-1"), "--workers": ("0", "-1", "1000000")},
}
CASES = [(c, o, v) for c, options in NONSENSE.items() for o, values in options.items() for v in values]
BEGINNING = {"flips": ["flips", "--by", "channels"], "validate": ["validate"], "sweep": ["sweep", "tiny"]}


@pytest.mark.parametrize(("command", "option", "value"), CASES)
def test_nonsense_is_refused_before_anything_is_read(command, option, value, tmp_path, monkeypatch, capsys):
    def never(*args, **kwargs):
        raise AssertionError(f"{option}={value} was taken")

    monkeypatch.setattr(runner, "examine", never)
    monkeypatch.setattr(flips_command, "explain", never)
    monkeypatch.setattr(sweep_run, "run_sweep", never)
    out = [] if command == "flips" else ["--out", str(tmp_path / "out")]
    assert cli.main([*BEGINNING[command], f"{option}={value}", *out, "--quiet"]) == cli.BAD_INPUT
    said = capsys.readouterr()
    name = option.removeprefix("--").replace("-", "_").removeprefix("rotation_")
    assert said.out == "" and f"{name}: expected" in said.err and "got" in said.err
    assert said.err.count("\n") == 1 and not (tmp_path / "out").exists()
