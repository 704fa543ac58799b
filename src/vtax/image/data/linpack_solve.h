/* The LINPACK solver in one precision: REAL is the type, NAME(x) makes its functions' names, EPSILON its unit. */

/* y += a x (BLAS axpy, level 1). */
static void NAME(axpy)(size_t n, REAL a, const REAL *restrict x, REAL *restrict y)
{
	for (size_t i = 0; i < n; i++)
		y[i] += a * x[i];
}

/* gefa: LU factors by columns with partial pivoting, multipliers negated below the diagonal. 0, or 1 if singular. */
static int NAME(gefa)(REAL *a, size_t n, int *pivots)
{
	for (size_t k = 0; k + 1 < n; k++) {
		REAL *const column = a + k * n;
		size_t pivot = k;
		for (size_t i = k + 1; i < n; i++)
			if (fabs((double)column[i]) > fabs((double)column[pivot]))
				pivot = i;
		pivots[k] = (int)pivot;
		if (column[pivot] == 0)
			return 1;
		const REAL largest = column[pivot];
		column[pivot] = column[k];
		column[k] = largest;
		const REAL factor = (REAL)-1 / largest;
		for (size_t i = k + 1; i < n; i++)
			column[i] *= factor;
		for (size_t j = k + 1; j < n; j++) {
			REAL *const other = a + j * n;
			const REAL moved = other[pivot];
			other[pivot] = other[k];
			other[k] = moved;
			NAME(axpy)(n - k - 1, moved, column + k + 1, other + k + 1);
		}
	}
	pivots[n - 1] = (int)n - 1;
	return a[n * n - 1] == 0;
}

/* gesl: solves with the factors of gefa; b becomes x. */
static void NAME(gesl)(const REAL *a, size_t n, const int *pivots, REAL *b)
{
	for (size_t k = 0; k + 1 < n; k++) {
		const REAL moved = b[pivots[k]];
		b[pivots[k]] = b[k];
		b[k] = moved;
		NAME(axpy)(n - k - 1, moved, a + k * n + k + 1, b + k + 1);
	}
	for (size_t k = n; k-- > 0;) {
		b[k] /= a[k * n + k];
		NAME(axpy)(k, -b[k], a + k * n, b);
	}
}

/* A matrix of values in [-2, 2) by columns, and the right side for which every x is 1. Returns max|a|. */
static REAL NAME(matgen)(REAL *a, size_t n, REAL *b)
{
	REAL largest = 0;
	start_numbers(n);
	for (size_t i = 0; i < n; i++)
		b[i] = 0;
	for (size_t j = 0; j < n; j++)
		for (size_t i = 0; i < n; i++) {
			const REAL value = (REAL)next_number();
			a[j * n + i] = value;
			largest = fabs((double)value) > (double)largest ? (REAL)fabs((double)value) : largest;
		}
	for (size_t j = 0; j < n; j++)
		for (size_t i = 0; i < n; i++)
			b[i] += a[j * n + i];
	return largest;
}

/* Solves `repetitions` times and checks the last solution. */
static struct solution NAME(measure)(size_t n, int repetitions)
{
	REAL *a = memory(n * n * sizeof *a), *b = memory(n * sizeof *b), *x = memory(n * sizeof *x);
	int *pivots = memory(n * sizeof *pivots);
	struct solution found = {.best_s = HUGE_VAL};
	for (int k = 0; k < repetitions; k++) {
		NAME(matgen)(a, n, b);
		const double start = now();
		const int failed = NAME(gefa)(a, n, pivots);
		if (!failed)
			NAME(gesl)(a, n, pivots, b);
		const double elapsed = now() - start;
		found.total_s += elapsed;
		found.best_s = elapsed < found.best_s ? elapsed : found.best_s;
		if (failed)
			refuse("the matrix is singular", "the guest computed or stored it wrongly");
	}
	memcpy(x, b, n * sizeof *x);
	const REAL largest = NAME(matgen)(a, n, b);
	double largest_x = 0, largest_b = 0, row_norm = 0;
	for (size_t i = 0; i < n; i++) {
		largest_b = fmax(largest_b, fabs((double)b[i]));
		largest_x = fmax(largest_x, fabs((double)x[i]));
		b[i] = -b[i];
	}
	for (size_t j = 0; j < n; j++)
		NAME(axpy)(n, x[j], a + j * n, b);
	for (size_t i = 0; i < n; i++) {
		double sum = 0;
		for (size_t j = 0; j < n; j++)
			sum += fabs((double)a[j * n + i]);
		row_norm = fmax(row_norm, sum);
		found.residual = fabs((double)b[i]) <= found.residual ? found.residual : fabs((double)b[i]);
	}
	found.first = (double)x[0];
	found.last = (double)x[n - 1];
	found.normalized = found.residual / ((double)n * (double)largest * largest_x * EPSILON);
	found.scaled = found.residual / (EPSILON * (row_norm * largest_x + largest_b) * (double)n);
	return found;
}
