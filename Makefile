# The commands of CONTRIBUTING.md.
.PHONY: check test

check: ## lint, types, layers, texts, unit tests; no root
	tests/run --check

test: ## every test that this machine can run; root
	./quickstart --yes --test
