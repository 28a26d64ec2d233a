"""A project: a folder with flows, and what stands around them. No file but a flow is needed.

Everything is read when it is first asked for, and told with all its problems; nothing is kept between two `open`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path, PurePath

from runner.errors import InvalidFlow, NotFound, Problem, SettingsError
from runner.language import bundle as bundles
from runner.language import called, check, load
from runner.language import templates as letters
from runner.language.connections import Connections, Kinds, installed, load_connections
from runner.language.facts import ProjectFacts
from runner.language.fitting import value_at
from runner.language.flow import Flow
from runner.language.nearest import did_you_mean
from runner.language.people import People, load_people
from runner.language.settings import Settings, load_settings
from runner.language.source import Place, Source, problem_at, read_bytes
from runner.secrets import Secrets

SETTINGS, PEOPLE, CONNECTIONS = "amends.yaml", "people.yaml", "connections.yaml"
YAML = (".yaml", ".yml")
TEMPLATES = (".md", ".txt", ".html")
TESTS = (".test.yaml", ".test.yml")
"""How the name of a flow test ends."""


class Project:
    """A folder with flows. Make one with `Project.open` or `Project.around`."""

    def __init__(self, folder: Path, *, kinds: Kinds | None = None) -> None:
        self.folder = folder
        self.texts: dict[str, str] = {}
        """The text of every file that was read, by its name as problems give it."""
        self._kinds = kinds
        self._instead: dict[str, str] = {}
        self._unreadable: list[Problem] = []
        self._settings_source: Source | None = None
        self._connections_source: Source | None = None
        self._people_source: Source | None = None
        self._found: dict[str, tuple[Problem, ...]] = {}
        """What is wrong with each file around the flows, by its name."""

    @classmethod
    def open(cls, folder: str | Path, *, kinds: Kinds | None = None) -> Project:
        """The project in this folder. Raises NotFound if there is no such folder."""
        path = Path(folder).resolve()
        if not path.is_dir():
            raise NotFound(f"there is no folder {folder}")
        return cls(path, kinds=kinds)

    @classmethod
    def around(cls, path: str | Path, *, kinds: Kinds | None = None) -> Project:
        """The project that a flow file or folder belongs to: the nearest folder above with an amends.yaml; without
        one, the file's own folder, or the folder above it if that is called `flows`."""
        start = Path(path).resolve()
        folder = start if start.is_dir() else start.parent
        for above in (folder, *folder.parents):
            if (above / SETTINGS).is_file():
                return cls.open(above, kinds=kinds)
        if folder.name == "flows" and folder.parent != folder:
            folder = folder.parent
        return cls.open(folder, kinds=kinds)

    def again(self) -> Project:
        """The same project, with every file read anew."""
        return Project(self.folder, kinds=self._kinds)

    def as_if(self, path: Path, text: str) -> Project:
        """The same project, with every file read anew, but for this one: as if it held that text."""
        found = self.again()
        found._instead[self.name_of(path)] = text
        return found

    # --- files ----------------------------------------------------------------------------------------------------

    def name_of(self, path: Path) -> str:
        """A file's name as problems give it: from the project folder, with slashes."""
        try:
            return path.resolve().relative_to(self.folder).as_posix()
        except ValueError:
            return path.as_posix()

    def _text(self, path: Path) -> str | None:
        """The text of a file, or None where there is none or it cannot be read (then that is a problem)."""
        name = self.name_of(path)
        if name in self.texts:
            return self.texts[name]
        if not path.is_file():
            return None
        text, problem = read_bytes(path, name)
        if problem is not None:
            self._unreadable.append(problem)
            return None
        self.texts[name] = text
        return text

    def read_file(self, name: str) -> tuple[str, Problem | None] | None:
        """A file by its path from the project folder: its text, or what keeps it from being read; None: not there."""
        path = (self.folder / name).resolve()
        if name in self.texts:
            return self.texts[name], None
        if not path.is_file() or not path.is_relative_to(self.folder):
            return None
        text, problem = read_bytes(path, name)
        if problem is None:
            self.texts[name] = text
        return text, problem

    def _files(self, folder: str, endings: tuple[str, ...]) -> Iterator[Path]:
        below = self.folder / folder
        if below.is_dir():
            yield from sorted(path for path in below.iterdir() if path.suffix in endings and path.is_file())

    def flow_files(self) -> tuple[Path, ...]:
        """The files with flows: `flows/*.yaml`; in a folder without `flows/`, those beside it with a line `flow:`."""
        found = tuple(path for path in self._files("flows", YAML) if not is_flow_test(path))
        if found or (self.folder / "flows").is_dir():
            return found
        others = (SETTINGS, PEOPLE, CONNECTIONS)
        beside = sorted(path for path in self.folder.iterdir() if path.suffix in YAML and path.name not in others)
        return tuple(path for path in beside if not is_flow_test(path) and _has_flow(self._text(path)))

    def flow_tests(self) -> tuple[Path, ...]:
        """The files with flow tests."""
        folder = self.folder / "flows"
        return tuple(
            sorted(path for path in (folder if folder.is_dir() else self.folder).iterdir() if is_flow_test(path))
        )

    # --- what stands around the flows --------------------------------------------------------------------------------

    @cached_property
    def settings(self) -> Settings:
        """amends.yaml, with defaults."""
        text = self._text(self.folder / SETTINGS)
        settings, self._settings_source, self._found[SETTINGS] = load_settings(text, SETTINGS, folder=self.folder.name)
        return settings

    @cached_property
    def people(self) -> People:
        """people.yaml."""
        text = self._text(self.folder / PEOPLE)
        if text is None:
            return People()
        people, self._people_source, self._found[PEOPLE] = load_people(text, PEOPLE)
        return people

    @cached_property
    def kinds(self) -> Kinds:
        """Every connector in reach."""
        own = {path.stem: (self.name_of(path), self._text(path) or "") for path in self._files("connectors", YAML)}
        if self._kinds is None:
            return installed(own)
        return Kinds(python=self._kinds.python, declarative=self._kinds.declarative, own={**self._kinds.own, **own})

    @cached_property
    def connections(self) -> Connections:
        """connections.yaml and the built-in connections."""
        text = self._text(self.folder / CONNECTIONS)
        connections, self._connections_source, self._found[CONNECTIONS] = load_connections(
            text, CONNECTIONS, kinds=self.kinds
        )
        return connections

    @cached_property
    def templates(self) -> Mapping[str, str]:
        """The files under templates/ by name."""
        found = {path.name: self._text(path) for path in self._files("templates", TEMPLATES)}
        return {name: text for name, text in found.items() if text is not None}

    def facts(self) -> ProjectFacts:
        """What the rules and the making of a bundle need to know."""
        return ProjectFacts(
            actions=self.connections.actions(),
            people=self.people,
            connections=self.connections.by_name,
            unreadable=self.connections.unreadable,
            templates=self.templates,
            flows={path.stem: self.name_of(path) for path in self.flow_files()},
            zone=self.settings.zone,
            has_zone=self.settings.has_zone,
            language=self.settings.language,
            project=self.settings.project,
            read_file=self.read_file,
            keeps_drills=True,
        )

    def problems(self) -> tuple[Problem, ...]:
        """Everything that is wrong with the files around the flows."""
        found = self._of_settings()
        for connector in self.kinds.own:
            self.kinds.find(connector)
        found += [*self.kinds.problems, *_template_problems(self.templates), *self._unreadable, *self._unset_secrets()]
        return tuple(dict.fromkeys(found))

    def _of_settings(self) -> list[Problem]:
        _ = self.settings, self.people, self.connections
        found = [problem for file in (SETTINGS, PEOPLE, CONNECTIONS) for problem in self._found.get(file, ())]
        return [*found, *self._teller()]

    def _teller(self) -> Iterator[Problem]:
        """What is wrong with the connection that `tell_by` names, and with whoever `admin` names."""
        name, known, source = self.settings.tell_by, self.connections, self._settings_source
        people = self._people_source
        if not name and people is not None and any(one.mail for one in self.people.people.values()):
            what = "nobody here gets mail: amends.yaml names no connection that sends it"
            hint = "write tell_by: mail there, with a connection of connector: email"
            yield people.problem("FL301", ("people",), what, hint, on="key", level="warning")
        why = self.people.reachable(self.settings.admin) if self.settings.admin else ""
        if why and source is not None:
            yield source.problem("FL301", ("admin",), why)
        if not name or source is None or name in known.unreadable:
            return
        if name not in known.by_name:
            hint = did_you_mean(name, known.by_name, "connections") or "name it in connections.yaml"
            yield source.problem("FL208", ("tell_by",), f'there is no connection "{name}"', hint)
        elif not any(action.renders_template for action in known.by_name[name].actions.values()):
            hint = "name a connection that does, with connector: email"
            yield source.problem("FL208", ("tell_by",), f'the connection "{name}" sends no mails', hint)

    def _unset_secrets(self) -> Iterator[Problem]:
        """Secrets that are named and not set: the flows can be written before, and not run."""
        secrets = Secrets(self.folder)
        try:
            secrets.known()
        except SettingsError as error:
            yield problem_at(".env", Place(line=0, column=0), "FL006", str(error))
            return
        told: set[str] = set()
        sources = [source for source in (self._settings_source, self._connections_source) if source is not None]
        for source, path, name in ((one, path, found.text) for one in sources for path, found in one.scalars.items()):
            is_named = path[-1] == "secret" and value_at(source.data, path[:-1]) == {"secret": name}
            if is_named and name not in told and not secrets.has(name):
                told.add(name)
                what, hint = f'the secret "{name}" is not set', f"put a line {name}=… into .env"
                yield source.problem("FL208", path, what, hint, level="warning")

    def _around(self, checked: called.CheckedFlow) -> tuple[Problem, ...]:
        """What is wrong with the files that this flow leans on; those that only other flows use are not asked."""
        found, flow = [*self._of_settings(), *self._unreadable], checked.flow
        parts = called.every_part(flow, self.facts()) if flow is not None and checked.is_fit_to_run else (flow,)
        for part in parts:
            found += _template_problems(bundles.used_templates(part, self.templates)) if part is not None else ()
        return tuple(dict.fromkeys(found))

    # --- flows --------------------------------------------------------------------------------------------------------

    def check(self, which: str | Path | None = None, facts: ProjectFacts | None = None) -> list[called.CheckedFlow]:
        """Checks one flow (by path or id) or all of them; the files around them are in `problems()`.

        Raises NotFound for a path or id that is not there.
        """
        paths = self.flow_files() if which is None else (self.path_of(which),)
        facts = facts or self.facts()
        return [self._check(path, facts) for path in paths]

    def _check(self, path: Path, facts: ProjectFacts) -> called.CheckedFlow:
        file = self.name_of(path)
        text, problem = (self._instead[file], None) if file in self._instead else read_bytes(path, file)
        if problem is not None:
            return called.CheckedFlow(file=file, text="", flow=None, source=None, problems=(problem,))
        self.texts[file] = text
        return self.check_text(text, file, facts)

    def check_text(self, text: str, file: str, facts: ProjectFacts) -> called.CheckedFlow:
        """Checks a flow as if its file held this text."""
        flow, source, problems = load.load_flow(text, file, facts.read_file)
        if flow is not None and source is not None:
            rules = check.check_flow(flow, source, facts)
            problems = tuple(sorted((*problems, *rules), key=lambda one: (one.line, one.column, one.code)))
        return called.CheckedFlow(
            file=file, text=text, flow=flow, source=source, problems=tuple(dict.fromkeys(problems))
        )

    def path_of(self, which: str | Path) -> Path:
        """The file of a flow by path or id. Raises NotFound with the nearest name."""
        given = Path(which)
        if is_flow_test(given):
            raise NotFound(f"{which} is a flow test and no flow; `amends test` plays it")
        for path in (given, self.folder / given):
            if path.suffix in YAML and path.is_file():
                return path
        files = {path.stem: path for path in self.flow_files()}
        if str(which) in files:
            return files[str(which)]
        hint = did_you_mean(str(which), files, "flows here")
        raise NotFound(f'there is no flow "{which}"' + (f"; {hint}" if hint else f" in {self.folder}"))

    def flow(self, which: str | Path) -> Flow:
        """A flow that is fit to run. Raises NotFound, InvalidFlow (with every problem that keeps it from running)."""
        checked = self.checked(which)
        if checked.flow is None:
            raise InvalidFlow(checked.problems, {checked.file: checked.text})
        return checked.flow

    def checked(self, which: str | Path) -> called.CheckedFlow:
        """A flow that is fit to run, with its warnings. Raises NotFound, InvalidFlow."""
        checked = self.check(which)[0]
        errors = [found for found in (*self._around(checked), *checked.problems) if found.level == "error"]
        if errors:
            raise InvalidFlow(tuple(errors), {**self.texts, checked.file: checked.text})
        return checked

    def bundle(self, which: str | Path) -> bundles.Bundle:
        """A flow as a run pins it now. Raises NotFound, InvalidFlow."""
        checked = self.checked(which)
        return bundles.assemble(checked.text, checked.file, self.facts())


def _template_problems(templates: Mapping[str, str]) -> Iterator[Problem]:
    for name, text in templates.items():
        for fault in letters.template_faults(name, text):
            place = Place(line=fault.line, column=fault.column, length=fault.length)
            yield problem_at(f"templates/{name}", place, "FL007", fault.what, fault.hint)


def _has_flow(text: str | None) -> bool:
    return text is not None and any(line.startswith("flow:") for line in text.splitlines())


def flow_of(file: str) -> str:
    """The flow that a file of this name tests."""
    return PurePath(file).name.removesuffix(TESTS[0]).removesuffix(TESTS[1])


def is_flow_test(path: PurePath) -> bool:
    """Whether a file of this name holds a flow test."""
    return path.name.endswith(TESTS)
