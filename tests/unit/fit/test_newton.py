import numpy as np

from smoothsynth.fit.newton import solve_conjugate_gradient


def system(size=40):
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return vectors @ np.diag(np.geomspace(1e-2, 10.0, size)) @ vectors.T, rng.normal(size=size)


def test_an_ill_conditioned_system_is_solved_in_few_products():
    matrix, right = system()
    products = []

    def product(vector):
        products.append(1)
        return matrix @ vector

    found = solve_conjugate_gradient(product, right, diagonal=np.diag(matrix), tolerance=1e-8)
    np.testing.assert_allclose(matrix @ found, right, atol=1e-7 * np.linalg.norm(right))
    # Steepest descent would take thousands.
    assert len(products) <= 100


def test_cut_short_it_still_points_down():
    matrix, right = system()
    for most in range(1, 10):
        found = solve_conjugate_gradient(
            lambda v: matrix @ v, right, diagonal=np.diag(matrix), tolerance=0.0, max_products=most
        )
        assert right @ found > 0


def test_an_indefinite_product_ends_the_search():
    found = solve_conjugate_gradient(lambda v: -v, np.ones(3), diagonal=np.ones(3), tolerance=1e-8)
    np.testing.assert_array_equal(found, np.zeros(3))
