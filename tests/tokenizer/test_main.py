import subprocess
import sys


def run(*arguments):
    command = [sys.executable, "-m", "tokenizer", *arguments]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def test_the_package_runs_as_a_program():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Byte-level byte-pair encoding" in done.stdout


def test_the_exit_code_is_that_of_the_command_line(tmp_path):
    done = run("encode", str(tmp_path / "nowhere"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("python -m tokenizer encode: cannot read")
