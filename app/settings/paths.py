"""Where things are: qchat's folders on this machine, which are private, and the files that ship with it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from app.errors import SettingsError, printable


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
                f"cannot make the folder {printable(str(folder), 400)}: {error.strerror}",
                "QCHAT_HOME moves qchat's folders to a place of your choice",
            ) from error
    return path


def shipped_config_dir() -> Path:
    """config/ of the checkout, or app/config inside an installed package."""
    package = Path(__file__).parents[1]
    inside = package / "config"
    return inside if inside.is_dir() else package.parent / "config"
