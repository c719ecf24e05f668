"""What is this installation made of? Everything comes from `env`; nothing is read elsewhere."""

from pathlib import Path

from .env import read_environment, socket_path
from .locations import broker_url, channel_host, database_settings, result_backend

env = read_environment()
BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = env.secret_key
DEBUG = False
ALLOWED_HOSTS = env.allowed_hosts

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "channels",
    "workers.apps.WorkersConfig",
    "queues_ui.apps.QueuesUiConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "queues_ui.access.headers.SecurityHeaders",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "queues_ui.access.away.DatabaseAtHand",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "queues_ui.access.origin.SameHostCsrf",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "queues_ui.access.tidy.ApiRefusals",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]

DATABASES = {"default": database_settings(env.database_url, str(env.data_dir / "sluicegate.sqlite3"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 8}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = env.data_dir / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # empty in a checkout; whitenoise warns if it is missing
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_ALLOW_ALL_ORIGINS = False
WHITENOISE_USE_FINDERS = True  # served from the checkout; collectstatic is only needed behind a CDN
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [channel_host(env.redis_url)], "prefix": f"sluicegate:{{{env.gate}}}:live"},
    }
}

# Cookies are marked Secure where the room is served by TLS; on a plain loopback address a
# Secure cookie would make logging in impossible.
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.tls
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "sluicegate_session"
CSRF_COOKIE_NAME = "sluicegate_csrf"
SESSION_COOKIE_AGE = 12 * 3600
CSRF_FAILURE_VIEW = "queues_ui.views.refused.show_csrf_refusal"
CSRF_TRUSTED_ORIGINS = env.trusted_origins
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.tls else None
SECURE_SSL_REDIRECT = env.tls
# Programs are not sent from door to door: a redirected POST would lose its body.
SECURE_REDIRECT_EXEMPT = [r"^api/", r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 30 * 24 * 3600 if env.tls else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = env.tls
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# W003 looks for Django's own class by name; SameHostCsrf is a subclass of it. The others ask for TLS.
SILENCED_SYSTEM_CHECKS = ["security.W003"] + (
    [] if env.tls else ["security.W004", "security.W008", "security.W012", "security.W016"]
)

SLUICEGATE_MAX_BODY_BYTES = env.max_body_bytes
SLUICEGATE_ADDRESS_RATE = env.address_rate
SLUICEGATE_ADDRESS_BURST = env.address_burst
SLUICEGATE_TRUSTED_PROXIES = env.trusted_proxies
DATA_UPLOAD_MAX_MEMORY_SIZE = env.max_body_bytes
DATA_UPLOAD_MAX_NUMBER_FIELDS = 200

SLUICEGATE_CELERY_APP = "config.celery.app"
# Where drills are on, keys may do far more than send to this machine.
SLUICEGATE_ALERT_HOSTS = env.alert_hosts + (["localhost", "127.0.0.1", "::1"] if env.drills else [])
SLUICEGATE_INSTALLATION = env.installation
SLUICEGATE_GATE = env.gate
SLUICEGATE_REDIS_URL = env.redis_url
SLUICEGATE_DATA_DIR = env.data_dir
SLUICEGATE_EMBEDDED = env.embedded
SLUICEGATE_SOCKET_PATH = socket_path(env.data_dir)
SLUICEGATE_PORT = env.port
SLUICEGATE_WORKERS = env.workers
SLUICEGATE_DEMO = env.demo
SLUICEGATE_DRILLS = env.drills
SLUICEGATE_DURABILITY = env.durability
SLUICEGATE_MAX_MEMORY_BYTES = env.max_memory_bytes
SLUICEGATE_RETENTION_S = env.retention_s
SLUICEGATE_POLICIES_FILE = BASE_DIR / "config" / "queues.toml"
SLUICEGATE_ALERTS_FILE = BASE_DIR / "config" / "alerts.toml"
SLUICEGATE_OPERATOR_PASSWORD = env.operator_password
SLUICEGATE_API_KEY = env.api_key

_RESULT_URL, _RESULT_OPTIONS = result_backend(env.redis_url)
CELERY_SETTINGS = {
    "broker_url": broker_url(env.redis_url),
    "broker_transport_options": {"gate": env.gate, "durability": env.durability},
    "result_backend": _RESULT_URL,
    "result_backend_transport_options": {
        **_RESULT_OPTIONS,
        "global_keyprefix": f"sluicegate:{{{env.gate}}}:result:",
    },
    "result_expires": env.retention_s,
    "redis_socket_timeout": 1.5,
    "redis_socket_connect_timeout": 1.5,
    "task_serializer": "json",
    "result_serializer": "json",
    "accept_content": ["json"],
    "task_default_queue": "normal",
    "task_create_missing_queues": True,
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    "task_track_started": False,
    "worker_prefetch_multiplier": 1,
    "worker_hijack_root_logger": False,
    "broker_connection_retry_on_startup": True,
    "timezone": "UTC",
    "imports": ["workers.tasks", *env.imports],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    # A refusal is an answer, counted and journaled; only a fault of our own belongs in the log.
    "filters": {
        "faults": {
            "()": "django.utils.log.CallbackFilter",
            "callback": lambda record: getattr(record, "status_code", 500) == 500,
        }
    },
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line"},
        "faults": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["faults"]},
    },
    "root": {"handlers": ["stderr"], "level": env.log_level},
    "loggers": {
        "django.request": {"handlers": ["faults"], "propagate": False},
        "channels_redis": {"level": "CRITICAL"},  # the relay says that the stream is away, once a try
        "httpx": {"level": "WARNING"},  # a line for each call that a job makes is noise
    },
}
