import pytest

pytest.register_assert_rewrite("pilotage.testing.architecture_proofs")
