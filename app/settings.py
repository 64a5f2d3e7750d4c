"""One value for every setting, and where it came from: flag > QCHAT_* environment > config.toml > config/defaults.toml.

The defaults live in one commented file that ships with the package; this module knows only what values are allowed.
A name or value that is not allowed is an error that says which file or variable holds it, never ignored: a misspelled
setting that silently does nothing is the worst kind.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from app.errors import SettingsError, printable
from app.rules import OWN, Rule, Value, nearest
from app.server_table import LOCAL, SERVERS, ServerTable, read_servers

KEYS = "keys."  # the table of key bindings: its names are the app's actions, which this module does not know
KEY_VARIABLES = "QCHAT_KEY_"  # and the name of a server: what holds its key
FOLDERS = "folders."  # the table of more folders with models: a person chooses the names
_FREE_TABLES = (KEYS, FOLDERS)  # any name with text

# QCHAT_* variables that are not settings: places, debugging, and switches of the engine
OTHER_VARIABLES = frozenset(
    {"QCHAT_HOME", "QCHAT_CONFIG", "QCHAT_DEBUG", "QCHAT_ISA", "QCHAT_TRACE"}  # documented in README.md
)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "model": Rule(str),
        "backend": Rule(str),
        "system": Rule(str),
        "thinking": Rule(str, choices=("on", "off"), own=True),
        "show_thinking": Rule(bool),
        "max_tokens": Rule(int, 1, 10_000_000, also=-1),
        "ctx": Rule(int, 16, 10_000_000, also=0),
        "kv": Rule(str, choices=("f16", "f32", "q8_0")),
        "threads": Rule(int, 0, 1024),
        "speculation": Rule(bool),
        "device": Rule(str, choices=("auto", "cpu", "cuda")),
        "lm_head": Rule(str, choices=("q4_0",), own=True),
        "packed_cache_gb": Rule(float, 0, 1_000_000),
        "other_stores": Rule(bool),
        "download_connections": Rule(int, 1, 16),
        "download_limit_mb": Rule(float, 0.1, 1_000_000, also=0),
        "theme": Rule(str),
        "sampling.temperature": Rule(float, 0, 100, own=True),
        "sampling.top_k": Rule(int, 0, 1_000_000_000, own=True),
        "sampling.top_p": Rule(float, 0, 1, own=True),
        "sampling.min_p": Rule(float, 0, 1, own=True),
        "sampling.repeat_penalty": Rule(float, 0, 10, own=True, above_low=True),
        "sampling.presence_penalty": Rule(float, -2, 2, own=True),
        "sampling.frequency_penalty": Rule(float, -2, 2, own=True),
        "sampling.seed": Rule(int, 0, 2**63 - 1, own=True),
    }
)


@dataclass(frozen=True)
class SamplingSettings:
    """What the person asked for; None leaves a value to the model."""

    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repeat_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    seed: int | None


@dataclass(frozen=True)
class Settings:
    """Every setting, resolved. `thinking` and `lm_head` are None for the model's own; `sources` says who decided."""

    model: str  # "" is for the backend to choose
    backend: str  # the name of a server, or of an installed backend
    system: str
    thinking: bool | None
    show_thinking: bool
    max_tokens: int  # -1: to the end of the context
    ctx: int  # 0: the model's own
    kv: str
    threads: int  # 0: physical cores
    speculation: bool
    device: str
    lm_head: str | None
    packed_cache_gb: float  # 10^9 bytes; 0 keeps nothing
    other_stores: bool
    download_connections: int
    download_limit_mb: float  # 10^6 bytes a second; 0: no limit
    theme: str
    sampling: SamplingSettings
    servers: Mapping[str, ServerTable]  # the [servers.NAME] tables, by name
    keys: Mapping[str, str]  # action -> keys, from the [keys] table; the app checks them
    folders: Mapping[str, str]  # name -> path, from the [folders] table; the library checks them
    sources: Mapping[str, str]  # "sampling.top_p" -> "the flag", "QCHAT_SAMPLING_TOP_P", a file's path or "default"

    def named(self, model: str) -> str:
        """`model` as a person names it, and as `model` takes it: with its server, if a server answers."""
        return f"{self.backend}/{model}" if self.backend in self.servers else model

    def items(self) -> Iterator[tuple[str, Value]]:
        """Every setting as written in config.toml, so None is "model" again and thinking is "on" or "off"."""
        for key in RULES:
            owner: Any = self.sampling if key.startswith("sampling.") else self
            value = getattr(owner, key.removeprefix("sampling."))
            if key == "thinking" and value is not None:
                value = "on" if value else "off"
            yield key, OWN if value is None else value
        for action, keys in self.keys.items():
            yield KEYS + action, keys
        for name, folder in self.folders.items():
            yield FOLDERS + name, folder


@dataclass(frozen=True)
class Paths:
    """Where qchat keeps things on this machine."""

    config_file: Path
    data_dir: Path
    cache_dir: Path
    log_dir: Path

    @property
    def models_dir(self) -> Path:
        return self.data_dir / "models"

    @property
    def catalogue_file(self) -> Path:
        """A person's own entries of the catalogue, beside their settings."""
        return self.config_file.parent / "models.toml"


def paths() -> Paths:
    """The platform's folders; QCHAT_HOME moves them all and QCHAT_CONFIG names another config file."""
    home = os.environ.get("QCHAT_HOME")
    if home:
        root = Path(home).expanduser().absolute()
        found = Paths(root / "config.toml", root / "data", root / "cache", root / "logs")
    else:
        import platformdirs  # noqa: PLC0415 - slow to import and often not needed

        dirs = platformdirs.PlatformDirs("qchat", appauthor=False)
        config = Path(dirs.user_config_dir) / "config.toml"
        found = Paths(config, Path(dirs.user_data_dir), Path(dirs.user_cache_dir), Path(dirs.user_log_dir))
    named = os.environ.get("QCHAT_CONFIG")
    if named:
        found = Paths(Path(named).expanduser().absolute(), found.data_dir, found.cache_dir, found.log_dir)
    return found


def private_dir(path: Path) -> Path:
    """Make `path` and its missing parents, readable for this user alone (0700), and return it."""
    for folder in [*reversed(path.parents), path]:
        try:
            if not folder.exists():
                folder.mkdir(mode=0o700)
        except FileExistsError:
            continue  # another qchat made it in between
        except OSError as error:
            raise SettingsError(
                f"cannot make the folder {printable(str(folder))}: {error.strerror}",
                "QCHAT_HOME moves qchat's folders to a place of your choice",
            ) from error
    return path


def shipped_config_dir() -> Path:
    """config/ of the checkout, or app/config inside an installed package."""
    package = Path(__file__).parent
    inside = package / "config"
    return inside if inside.is_dir() else package.parent / "config"


def variable(key: str) -> str:
    """The environment variable of a setting."""
    return "QCHAT_" + key.replace(".", "_").upper()


@dataclass(frozen=True)
class ConfigFile:
    """What stands in one TOML file: settings by dotted key, and servers by name."""

    values: Mapping[str, Value]
    servers: Mapping[str, ServerTable]


def read_config(path: Path) -> ConfigFile:
    """What stands in one TOML file. SettingsError names the file, the key and what is allowed."""
    try:
        with path.open("rb") as file:
            tables = tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"cannot read {printable(str(path))}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = printable(str(error), 200)
        raise SettingsError(f"{printable(str(path))} is not valid TOML: {reason}", "'qchat config edit'") from error
    servers = read_servers(tables.pop(SERVERS, {}), path)
    where = printable(str(path), 400)
    return ConfigFile({key: _checked(key, value, where) for key, value in _flatten(tables)}, servers)


def load_settings(*layers: Mapping[str, Any] | None) -> Settings:
    """Resolve every setting. `layers` come over the environment, the last first: a chat's own settings, then what the
    command line gave, each by dotted key; None means not given.

    A model written NAME/MODEL, where NAME is a server or "local", names the backend too (`name_backend`). A backend
    that is named without a model answers with its own: the `model` of the server's table, or "" for its choice.
    """
    defaults = read_config(shipped_config_dir() / "defaults.toml")
    values: dict[str, Value] = dict(defaults.values)
    sources = dict.fromkeys(RULES, "default")
    config_file, config = paths().config_file, ConfigFile({}, {})
    if config_file.exists() or os.environ.get("QCHAT_CONFIG"):
        config = read_config(config_file)

    def put(layer: Mapping[str, Value], source: Mapping[str, str]) -> None:
        given = name_backend(layer, config.servers)
        backend = given.get("backend", values["backend"])
        if given.get("model") == "" or (backend != values["backend"] and "model" not in given):
            table = config.servers.get(str(backend))
            own = table.model if table else ""
            given["model"] = defaults.values["model"] if backend == LOCAL else own
        where = source.get("model") or source.get("backend") or ""
        sources.update({key: source.get(key, where) for key in given})
        values.update(given)

    put(config.values, dict.fromkeys(config.values, str(config_file)))
    environment = {key: _parsed(key, text) for key, text in _environment().items()}
    put(environment, {key: variable(key) for key in environment})
    for layer in layers:
        given = {key: flag for key, flag in (layer or {}).items() if flag is not None}
        put(
            {key: _checked(key, flag, "the command line") for key, flag in given.items()},
            dict.fromkeys(given, "command line"),
        )
    sampling: dict[str, Any] = {k.removeprefix("sampling."): v for k, v in values.items() if k.startswith("sampling.")}
    keys, folders = ({k.removeprefix(t): str(v) for k, v in values.items() if k.startswith(t)} for t in _FREE_TABLES)
    top: dict[str, Any] = {k: v for k, v in values.items() if "." not in k}
    top["thinking"] = None if top["thinking"] is None else top["thinking"] == "on"
    return Settings(
        **top,
        sampling=SamplingSettings(**sampling),
        servers=MappingProxyType(dict(config.servers)),
        keys=MappingProxyType(keys),
        folders=MappingProxyType(folders),
        sources=MappingProxyType(sources),
    )


def name_backend(layer: Mapping[str, Any], servers: Mapping[str, ServerTable]) -> dict[str, Any]:
    """`layer` with a model written NAME/MODEL taken apart, where NAME is a server or "local".

    A backend that the layer itself names stands, so that `--backend work -m openai/gpt-oss-20b` asks the server work
    for that model, whatever else is called openai. NAME/ alone leaves the model to the server.
    """
    name, slash, model = str(layer.get("model") or "").partition("/")
    if not slash or (name != LOCAL and name not in servers) or layer.get("backend", name) != name:
        return dict(layer)
    return {**layer, "backend": name, "model": model}


def _environment() -> dict[str, str]:
    """The QCHAT_* settings that are set; an empty variable counts as unset."""
    known = {variable(key): key for key in RULES}
    found = {}
    for name, text in os.environ.items():
        if not name.startswith("QCHAT_") or name.startswith(KEY_VARIABLES) or name in OTHER_VARIABLES or not text:
            continue
        if name not in known:
            raise SettingsError(
                f"the environment variable {printable(name)} is not a setting of qchat", _suggest(name, list(known))
            )
        found[known[name]] = text
    return found


def _flatten(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tables.items():
        if isinstance(value, dict) and prefix == "":
            yield from _flatten(value, f"{name}.")
        else:
            yield prefix + name, value


def _checked(key: str, value: Any, where: str) -> Value:
    rule = Rule(str) if key.startswith(_FREE_TABLES) else RULES.get(key)
    if rule is None:
        raise SettingsError(f"{where}: no setting is called {printable(key)}", _suggest(key, list(RULES)))
    try:
        return rule.check(value)
    except ValueError as error:
        raise SettingsError(f"{where}: {key} = {printable(repr(value))} is not allowed", f"allowed: {error}") from error


def _parsed(key: str, text: str) -> Value:
    try:
        return RULES[key].parse(text)
    except ValueError as error:
        raise SettingsError(f"{variable(key)}={printable(text)} is not allowed", f"allowed: {error}") from error


def _suggest(name: str, known: list[str]) -> str:
    near = nearest(name, [*known, f"{SERVERS}.{name.partition('.')[2]}"] if "." in name else known)
    return f"did you mean {near}?" if near else "'qchat config show' lists them all"
