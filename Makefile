# The commands of CONTRIBUTING.md.
.PHONY: check coverage test

check: ## lint, types, layers, texts, unit tests; no root
	tests/run --check

coverage: ## lines of vtax that the unit tests execute, file by file; no root
	tests/run --coverage

test: ## every test that this machine can run, with the coverage of the unit tests; root
	./quickstart --yes --test
