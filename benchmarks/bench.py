"""One server under measurement: fresh processes and a warm one, each in its own scratch folder."""

import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import Client
from benchmarks.model.process import Model
from benchmarks.servers import ServerSpec

Samples = dict[str, list[float]]  # by metric


class Bench:
    def __init__(self, spec: ServerSpec, model: Model, folder: Path, scale: float = 1.0) -> None:
        self.spec = spec
        self.model = model
        self.scale = scale
        self._folder = folder
        self._count = 0
        self._warm: Client | None = None

    def times(self, count: int) -> int:
        """How often to do something that a full run does `count` times."""
        return max(2, round(count * self.scale))

    def folder(self) -> Path:
        self._count += 1
        folder = self._folder / f"{self.spec.name.replace(' ', '-')}-{self._count}"
        folder.mkdir(parents=True)
        return folder

    @contextmanager
    def fresh(self, folder: Path | None = None) -> Generator[Client]:
        """A process just started, with nothing said yet. Its folder goes with it, unless it was given."""
        place = folder or self.folder()
        client = Client(self.spec, self.model, place)
        try:
            yield client
        except BaseException:
            client.kill()
            raise
        else:
            client.close()
        finally:
            if folder is None:
                shutil.rmtree(place, ignore_errors=True)

    def warm(self) -> Client:
        """A process that has been through a turn already; the same one each time, while it lives."""
        if self._warm is None:
            client = Client(self.spec, self.model, self.folder())
            try:
                client.initialize()
                client.begin_session()
            except BaseException:
                client.kill()
                raise
            self._warm = client
        return self._warm

    def drop_warm(self) -> None:
        """After a failure, what is left of it must not spoil the next measure."""
        if self._warm is not None:
            self._warm.kill()
            self._warm = None

    def close(self) -> None:
        if self._warm is not None:
            self._warm.close()
            self._warm = None


@dataclass(frozen=True)
class Measure:
    """Something done to one server that yields samples of one metric or several."""

    name: str
    run: Callable[[Bench], Samples]
    repetitions: int = 3
