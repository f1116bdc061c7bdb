# SPDX-License-Identifier: Apache-2.0
# Shortcuts for the tools. Every target first installs what it needs.

jobs := $(shell nproc)
# Most tests wait more than they compute.
tests := $(shell echo $$((2 * $(jobs))))
python := .venv/bin/python
pytest := $(python) -m pytest --numprocesses $(jobs)
browser_tests := lab/gyrelab/tests/test_page.py

# $(call set_up,FOR): install what `make FOR` needs; .venv is made while CMake configures.
set_up = tools/setup $(1) --no-python && { cmake --preset release --log-level=NOTICE & \
	tools/setup $(1) --no-packages && wait $$!; }
# $(call build,PRESET): configure and build it.
build = cmake --preset $(1) --log-level=NOTICE && cmake --build --preset $(1) --parallel $(jobs)
# $(call run_tests,PRESET): run its tests.
run_tests = ctest --preset $(1) --parallel $(tests)

.DEFAULT_GOAL := help
.PHONY: help report test check lint docs format sanitize trust coverage clean

help: ## show this list
	@echo "The main targets are report and test. All targets:"
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "  make %-9s %s\n", $$1, $$2 }'

report: ## measure on this machine (it says how long), write report/index.html
	$(call set_up,report)
	tools/lab run --grid quick --out results/quick.json --report report/index.html

test: ## build with g++, test all that a change can break
	$(call set_up,test)
	$(call build,release)
	$(call run_tests,release)
	$(pytest) lab/gyrelab --ignore $(browser_tests)

check: ## what test leaves out: models, packaging, headers alone, pages' code, errors of misuse
	tools/setup all
	$(call build,check)
	$(call run_tests,check)
	$(pytest) $(browser_tests)

lint: ## check format, clang-tidy, Python, spelling and the order of the rooms
	tools/setup all
	tools/lint

docs: ## pages and API reference as a site in build/docs; begin with index.html
	tools/setup docs
	$(python) tools/site

format: ## format C++ and Python in place
	tools/setup all
	tools/lint --fix

sanitize: ## run the tests under ASan+UBSan and under TSan
	tools/setup all
	$(call build,asan)
	$(call run_tests,asan)
	$(call build,asan-gcc)
	$(call run_tests,asan-gcc)
	$(call build,tsan)
	$(call run_tests,tsan)

trust: ## the lab's full self-test: false alarms, a handicapped contender, lost tasks
	tools/setup report
	tools/lab trust --full

coverage: ## line coverage of gyre/, at least 90 %
	tools/setup all
	tools/coverage

clean: ## remove build trees, results and the report
	rm -rf build results report
