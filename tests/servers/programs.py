"""The programs that the servers load: each appends a line to a file every second, and triggers a job when asked."""

from pathlib import Path

_JOBS = '''
import asyncio, os, time
from hourbell import Scheduler

scheduler = Scheduler()


def tell(name, run):
    """One line in one write: processes that append at once do not mix them up."""
    line = f"{run.scheduled_at.isoformat()} {run.id} {run.attempt} {os.getpid()} {time.time()}\\n"
    file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)


@scheduler.job("* * * * * *", catch_up="all")
{how}def tick(run):
    tell("ticks", run)
    {wait}(float(os.environ.get("TICK_SECONDS", "0")))


@scheduler.job("@yearly")
{how}def asked(run):
    tell("asked", run)
'''
_FASTAPI = """
import os
from fastapi import FastAPI
from hourbell.fastapi import lifespan
from jobs import scheduler

app = FastAPI(lifespan=lifespan(scheduler))


@app.get("/")
async def pid():
    return str(os.getpid())


@app.get("/trigger/{key}")
async def trigger(key: str):
    return str(await scheduler.trigger("asked", key=key))
"""
_FLASK = """
import os
from flask import Flask, current_app, jsonify
from hourbell.flask import Hourbell
from jobs import scheduler, tell

app = Flask(__name__)
Hourbell(app, scheduler)


@scheduler.job("* * * * * *", overlap="skip", catch_up="latest")
def context(run):
    return current_app.name


@app.get("/")
def pid():
    return jsonify(str(os.getpid()))


@app.get("/trigger/<key>")
def trigger(key):
    return jsonify(str(scheduler.blocking.trigger("asked", key=key)))
"""
_SETTINGS = """
SECRET_KEY = "a secret for tests only"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "project.urls"
INSTALLED_APPS = ["hourbell.django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db"}}
HOURBELL_SCHEDULER = "jobs.scheduler"
USE_TZ = True
"""
_URLS = """
import os
from django.http import JsonResponse
from django.urls import path
from jobs import scheduler


def pid(request):
    return JsonResponse(str(os.getpid()), safe=False)


def trigger(request, key):
    return JsonResponse(str(scheduler.blocking.trigger("asked", key=key)), safe=False)


urlpatterns = [path("", pid), path("trigger/<key>", trigger)]
"""
_WSGI = """
import os
from django.core.wsgi import get_wsgi_application
from hourbell.django import start

os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
application = get_wsgi_application()
start()
"""
_MANAGE = """
import os, sys
from django.core.management import execute_from_command_line

os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
execute_from_command_line(sys.argv)
"""
_SHOP = """
from django.db import connection
from jobs import scheduler


@scheduler.job("* * * * * *", overlap="skip", catch_up="latest")
def count(run):
    with connection.cursor() as cursor:
        cursor.execute("select 1")
        return cursor.fetchone()[0]
"""


def write_fastapi(folder: Path) -> None:
    _write(folder, {"jobs.py": _jobs(is_async=True), "web.py": _FASTAPI})


def write_flask(folder: Path) -> None:
    _write(folder, {"jobs.py": _jobs(is_async=False), "web.py": _FLASK})


def write_django(folder: Path) -> None:
    """A project whose app `shop` has a module `jobs` that nobody imports by name."""
    _write(
        folder,
        {
            "jobs.py": _jobs(is_async=False),
            "manage.py": _MANAGE,
            "project/__init__.py": "",
            "project/settings.py": _SETTINGS,
            "project/urls.py": _URLS,
            "project/wsgi.py": _WSGI,
            "shop/__init__.py": "",
            "shop/jobs.py": _SHOP,
        },
    )


def _jobs(*, is_async: bool) -> str:
    wait = "await asyncio.sleep" if is_async else "time.sleep"
    return _JOBS.replace("{how}", "async " if is_async else "").replace("{wait}", wait)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
