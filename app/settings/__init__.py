"""Settings: every one has a rule, a default, and one value that says where it came from; and the places on disk."""

from app.settings.load import load_settings, name_backend
from app.settings.paths import Paths, paths, private_dir, shipped_config_dir
from app.settings.rule import OWN, Rule, Value
from app.settings.secret import HIDDEN, Secret
from app.settings.servers import LOCAL, SERVERS, ServerTable, key_variable
from app.settings.settings import FOLDERS, KEYS, RULES, SamplingSettings, Settings
from app.settings.sources import OTHER_VARIABLES, read_config, variable

__all__ = [
    "FOLDERS",
    "HIDDEN",
    "KEYS",
    "LOCAL",
    "OTHER_VARIABLES",
    "OWN",
    "RULES",
    "SERVERS",
    "Paths",
    "Rule",
    "SamplingSettings",
    "Secret",
    "ServerTable",
    "Settings",
    "Value",
    "key_variable",
    "load_settings",
    "name_backend",
    "paths",
    "private_dir",
    "read_config",
    "shipped_config_dir",
    "variable",
]
