"""tenon.optimize: the `tenon` command from Python."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from ._native import BadInputError, DeviceError, InternalError


def command() -> str:
    """The `tenon` command: $TENON_COMMAND, one beside the library, or one on the path."""
    here = Path(__file__).resolve().parents[2]
    for path in (os.environ.get("TENON_COMMAND"), here / "bin" / "tenon", here / "build" / "cli" / "tenon", shutil.which("tenon")):
        if path and os.access(str(path), os.X_OK):
            return str(path)
    raise DeviceError("the tenon command was not found; set TENON_COMMAND to its path")


def optimize(program: str, dims: Mapping[str, int], *, dtype: str = "bf16", device: str = "auto", database: Optional[str] = None,
             budget: Union[str, float] = "60s", attributes: Optional[Mapping[str, float]] = None,
             layouts: Optional[Mapping[str, str]] = None, dependent: bool = False, keep_weights: bool = False,
             row_strides: Optional[Mapping[str, int]] = None, retune: bool = False, seed: int = 0) -> Dict[str, Any]:
    """Searches, verifies, measures and stores the fastest kernel of a shape.

    `program` is a catalog name or the path of a file in the text form; `dims` as {"m": 16, "k": 4096,
    "n": 6144}; `budget` is in seconds or as "90s"; `layouts` as {"w": "n,k"}, `keep_weights`, `row_strides` (Library.bind). Returns what
    `tenon optimize --json` prints. Raises
    BadInputError, DeviceError; where nothing was found the result has no "best"."""
    arguments: List[str] = [command(), "optimize", program, "--json", "--dtype", dtype, "--device", device, "--seed", str(seed),
                            "--budget", budget if isinstance(budget, str) else f"{budget:g}s", "--launch", "dependent" if dependent else "plain"]
    for name, extent in dims.items():
        arguments += ["--dim", f"{name}={extent}"]
    for name, value in (attributes or {}).items():
        arguments += ["--attribute", f"{name}={value!r}"]
    for name, order in (layouts or {}).items():
        arguments += ["--layout", f"{name}={order}"]
    if database is not None:
        arguments += ["--db", str(database)]
    for name, stride in (row_strides or {}).items():
        arguments += ["--row-stride", f"{name}={stride}"]
    if keep_weights:
        arguments.append("--keep-weights")
    if retune:
        arguments.append("--retune")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    message = (done.stderr.strip().splitlines() or ["no message"])[-1]
    if done.returncode == 2:
        raise BadInputError(message)
    if done.returncode == 3:
        raise DeviceError(message)
    if done.returncode not in (0, 1):
        raise InternalError(f"tenon optimize ended with {done.returncode}: {message}")
    return json.loads(done.stdout)
