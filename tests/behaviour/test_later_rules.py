"""A run that a later version began is left as it is: this version does not know its rules of replay."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.behaviour.bureau import WAITING, Bureau, hired, started, triple
from tests.behaviour.office import GATED

from pilotage import Pod, agent_tool
from pilotage.errors import RunConflictError
from pilotage.runtime.journal.start_record import RULES, require_known_rules
