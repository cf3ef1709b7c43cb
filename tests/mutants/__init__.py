"""Would the tests notice? Changes one place of the source at a time, and runs the tests that reach it.

    make mutants                                          # 20 places, seed 0
    .venv/bin/python -m tests.mutants --seed 7 --count 300
    .venv/bin/python -m tests.mutants --package sharing --list
    .venv/bin/python -m tests.mutants --package gang --tests tests/gangs tests/oracles --processes 2

We do not use mutmut or cosmic-ray. mutmut renames functions, which our tests of stack traces, contracts and numba see,
and cosmic-ray starts a test run for each change, of which imports and the collection of 7,000 tests are most. Here the
tests are collected once, and each change gets a forked child that ends with the first test that fails.

- `changes` lists what can be changed in a module, and `blocks` divides its functions into stretches of statements.
- `reach` runs all tests once on a copy of the source that notes the blocks it passes (with `reached_blocks`).
- `trial_run` is the plugin of pytest that tries the changes one after the other.
- `explained` knows the changes that nobody can notice, and why.
- `snapshot` keeps the copies of the checkout that all of this happens in. The checkout itself is never changed.
"""
