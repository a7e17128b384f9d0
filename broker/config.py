"""Settings of one broker process: flags, then STREAMHOUSE_… variables, then --config FILE.toml.

With config_sources.py the only reader of the environment. Every mistake is listed at once.
"""

from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from broker.config_sources import read_file, read_names, read_pairs, read_sources
from broker.configs.broker_configs import BrokerConfig, read_broker_config
from broker.http.http_problems import http_problems
from broker.http.metrics_config import MetricsConfig
from broker.network.addresses import parse_address
from broker.network.listener_checks import address_problems, tls_problems
from broker.network.listeners import parse_listener
from broker.secrets_config import RegistryLogin, Secrets
from broker.security.sasl_problems import sasl_problems
from storage.config import (
    CacheConfig,
    PostgresConfig,
    UpkeepConfig,
    WriterConfig,
)
from storage.configs.config_types import InvalidConfig
from storage.objects.open_store import parse_store_url
from storage.postgres.postgres_dsn import check_dsn

PREFIX: Final = "STREAMHOUSE_"

_OF_OTHERS: Final = ("config", "bootstrap", "spark_master", "registry_user_info")
"""What the command line reads itself, and what is for `streamctl` and Spark's jobs."""

_WITHOUT: Final = {
    "data": "./streamhouse-data",
    "postgres": "an embedded one",
    "store": "a directory",
}
"""What a broker has that is told nothing."""

_PLAIN_WORDS: Final = {
    "extra_forbidden": "no such setting",
    "unexpected_keyword_argument": "no such setting",
    "int_parsing": "use a whole number",
    "int_type": "use a whole number",
    "int_from_float": "use a whole number",
    "float_parsing": "use a number",
    "bool_parsing": "use true or false",
    "greater_than_equal": "use {ge} or more",
    "less_than_equal": "use {le} or less",
}
"""What to do about a mistake, by its type; the library's own words are about models and inputs."""


class InvalidSettings(Exception):
    """The broker cannot be started like this; the message lists every reason."""


class Settings(BaseSettings):
    """What `streamhouse serve` was told.

    Attributes:
        listen, advertise: HOST:PORT or PROTOCOL://HOST:PORT each; the n-th advertised address
            belongs to the n-th listener.
        postgres: DSN; empty for the embedded one. Never shown.
        store: URL; empty for the directory DATA/objects.
        set: broker settings by Kafka's names.
        workers: broker processes; the n-th listens on the n-th port from those of listen and http.
        worker: which of them this process is; the command sets it for those that it starts.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        validate_default=False,  # only what was given can be a mistake
    )

    listen: Annotated[tuple[str, ...], NoDecode] = ("127.0.0.1:9092",)
    advertise: Annotated[tuple[str, ...], NoDecode] = ()
    http: str = "127.0.0.1:9644"
    data: Path = Path("streamhouse-data")
    postgres: str = Field(default="", repr=False)
    store: str = ""
    workers: Annotated[int, Field(ge=1, le=16)] = 1
    worker: Annotated[int, Field(ge=0, le=15)] = 0
    set: Annotated[dict[str, str], NoDecode] = Field(default_factory=dict)
    writer: WriterConfig = WriterConfig()
    cache: CacheConfig = CacheConfig()
    pool: PostgresConfig = PostgresConfig()
    upkeep: UpkeepConfig = UpkeepConfig()
    metrics: MetricsConfig = MetricsConfig()
    schema_registry: RegistryLogin = RegistryLogin()
    secrets: Secrets = Secrets()

    @field_validator("listen", "advertise", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        return tuple(text.strip() for text in value.split(","))

    @field_validator(*_WITHOUT, mode="before")
    @classmethod
    def _check_given(cls, value: object, field: ValidationInfo) -> object:
        """Refuse an empty one: a script's variable was not set, and meant something else."""
        if isinstance(value, str) and not value.strip():
            name = str(field.field_name)
            raise ValueError(f"empty; leave --{name} out for {_WITHOUT[name]}")
        return value

    @field_validator("set", mode="before")
    @classmethod
    def _read_pairs(cls, said: list[object]) -> dict[str, str]:
        return read_pairs(said)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)  # read_sources has put all of them together

    @property
    def store_url(self) -> str:
        return self.store or f"file://{self.data / 'objects'}"


def read_settings(flags: dict[str, Any], config_file: Path | None) -> tuple[Settings, BrokerConfig]:
    """Return the settings and the broker configs that they name.

    Args:
        flags: those that were given, by field name.
        config_file: TOML with the same keys, for what neither flags nor environment say.

    Raises:
        InvalidSettings: it lists every mistake.
    """
    problems: list[str] = []
    file = _read_file(config_file)
    try:
        settings = Settings(**read_sources(Settings, flags, file))
    except ValidationError as invalid:
        for error in invalid.errors():
            place = ".".join(str(part) for part in error["loc"])
            plain = _PLAIN_WORDS.get(error["type"])
            told = error["msg"].removeprefix("Value error, ")
            problems.append(f"{place}: {plain.format(**error.get('ctx', {})) if plain else told}")
        raise InvalidSettings("\n".join(problems)) from None
    except SettingsError as unreadable:  # a variable that has to be JSON
        raise InvalidSettings(f"{PREFIX}…: {unreadable}") from None
    names = (*Settings.model_fields, *_OF_OTHERS)
    known = {f"{PREFIX}{name}".upper() for name in names}
    problems += [
        f"{name}: no such setting"
        for name in read_names(PREFIX)
        if name.split("__")[0] not in known
    ]
    problems += _address_problems(settings)
    problems += http_problems(settings.http, settings.secrets.http_token)
    problems += _stores_problems(settings)
    try:
        broker_config = read_broker_config(settings.set)
    except InvalidConfig as invalid_config:
        problems += invalid_config.problems
        raise InvalidSettings("\n".join(problems)) from None
    problems += _listeners_problems(settings, broker_config)
    if problems:
        raise InvalidSettings("\n".join(problems))
    return settings, broker_config


def _address_problems(settings: Settings) -> list[str]:
    problems = []
    addresses = (
        ("listen", settings.listen),
        ("advertise", settings.advertise),
        ("http", (settings.http,)),
    )
    for what, texts in addresses:
        for text in texts:
            try:
                parse_address(text, listener=what != "http")
            except ValueError as error:
                problems.append(f"{what}: {error}")
    if problems:
        return problems
    return address_problems(settings.listen, settings.advertise) + _workers_problems(settings)


def _listeners_problems(settings: Settings, config: BrokerConfig) -> list[str]:
    try:
        protocols = [parse_listener(text).protocol for text in settings.listen]
    except ValueError:
        return []  # is told as a problem of the address
    return [
        *tls_problems(protocols, config.security, settings.secrets.key_password),
        *sasl_problems(config.security, settings.secrets, protocols),
    ]


def _workers_problems(settings: Settings) -> list[str]:
    if settings.workers == 1:
        return []
    ports = [int(text.rpartition(":")[2]) for text in (*settings.listen, settings.http)]
    if 0 in ports:
        return ["workers: they take ports one after the other; give --listen and --http one, not 0"]
    taken = [port + worker for port in ports for worker in range(settings.workers)]
    if max(taken) > 65535 or len(set(taken)) < len(taken):
        return [f"workers: choose --listen and --http so that ports {taken} differ and exist"]
    return []


def _stores_problems(settings: Settings) -> list[str]:
    problems = []
    try:
        if settings.postgres:
            check_dsn(settings.postgres)
    except ValueError as error:
        problems.append(f"postgres: {error}")
    try:
        parse_store_url(settings.store_url)
    except ValueError as error:
        problems.append(f"store: {error}")
    return problems


def _read_file(config_file: Path | None) -> dict[str, Any]:
    try:
        return read_file(config_file) if config_file is not None else {}
    except (OSError, ValueError) as error:
        raise InvalidSettings(f"--config {config_file}: {error}") from error
