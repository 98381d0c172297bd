"""The files of a new project, as `pilotage new` writes them; NAME and PACKAGE stand for the project's own."""
