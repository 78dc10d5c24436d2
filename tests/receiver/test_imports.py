"""The receiver package depends on the standard library only: people copy it into their programs."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import sys
before = set(sys.modules)
import hourbell.receiver, {module}
import json
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize(
    "module", ["hourbell.receiver", *(f"hourbell.receiver.{name}" for name in ("asgi", "wsgi", "django"))]
)
def test_importing_it_loads_only_itself_and_the_standard_library(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(module=module)], capture_output=True, check=True)
    loaded = json.loads(done.stdout)

    ours = {name for name in loaded if name.partition(".")[0] == "hourbell"}
    others = {name.partition(".")[0] for name in loaded} - {"hourbell"}
    assert module in ours
    assert {name for name in ours if not name.startswith("hourbell.receiver")} == {"hourbell"}
    assert others - sys.stdlib_module_names == set()
