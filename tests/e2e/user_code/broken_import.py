"""A module of a user that cannot be imported: it asks for something that is not installed."""

import a_package_that_nobody_has  # type: ignore[import-not-found]  # noqa: F401
