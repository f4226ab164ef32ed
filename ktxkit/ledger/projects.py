"""Which project a repository is: every run, record and answer is qualified by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktxkit.base.errors import CannotRun, KtxError

if TYPE_CHECKING:
    from ktxkit.store.world import World

VARIABLE = "KTX_PROJECT"


def resolve(world: World) -> str:
    """KTX_PROJECT, else `git config ktx.project`, else origin's address without its credentials, else the repository's
    place on this machine. Raises CannotRun outside a repository: there is no default.
    """
    if world.env.get(VARIABLE):
        return world.env[VARIABLE]
    try:
        repository = world.repository
    except KtxError as error:
        raise CannotRun(
            f"no project: {error.message}",
            where=error.where,
            hint=f"run inside a repository, set {VARIABLE}, or name one with --project",
        ) from error
    found = world.git.run("config", "--null", "--get-regexp", r"^(ktx\.project|remote\.origin\.url)$", ok=(0, 1))
    pairs = dict(entry.decode("utf-8", "replace").partition("\n")[::2] for entry in found.nul)
    if pairs.get("ktx.project"):
        return pairs["ktx.project"]
    if pairs.get("remote.origin.url"):
        from ktxkit.ledger.rules.projects import from_url

        return from_url(pairs["remote.origin.url"])
    return f"file:{repository.default_store.parent}"
