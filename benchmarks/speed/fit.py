"""Fit times as ratios within one run: linear program against SciPy's, maximum entropy against ours.

Run it with one BLAS thread (OMP_NUM_THREADS=1); the times are of the process, so other work matters less. With --large
it fits up to 5,150 moments on 100,000 candidates instead, each in a process of its own, and tells time and memory.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from itertools import combinations

import numpy as np
from scipy.optimize import linprog

from smoothsynth.fit.features import computed_features
from smoothsynth.fit.linear_program import fit_linear_program
from smoothsynth.fit.maximum_entropy import fit_maximum_entropy
from smoothsynth.queries.bases import lowest

# Columns, moments (degree 2), candidates, noise.
LARGE = [
    (20, 230, 100_000, 0.02),
    (44, 1_000, 100_000, 0.02),
    (100, 5_150, 20_000, 0.02),
    (100, 5_150, 100_000, 0.3),
    (100, 5_150, 100_000, 0.02),
]


def _problem(columns, moments, candidates, *, noise, seed=0):
    """Means, T_2 and pairs of correlated rows in the cube, with noise; candidates from a slightly wrong model."""
    rows, points, rng = _rows_and_points(columns, candidates, seed=seed)
    target = _features(rows, moments).mean(axis=0) + noise * rng.normal(size=moments)
    return _features(points, moments), target


def _rows_and_points(columns, candidates, *, seed=0):
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(columns, columns)) / np.sqrt(columns)
    wrong = mixing + 0.1 * rng.normal(size=(columns, columns)) / np.sqrt(columns)
    centre = 0.1 * rng.normal(size=columns)
    rows = np.clip(0.3 * rng.normal(size=(5000, columns)) @ mixing + centre, -1, 1)
    points = np.clip(0.3 * rng.normal(size=(candidates, columns)) @ wrong + centre, -1, 1)
    return rows, points, rng


def _features(points, moments):
    pairs = [points[:, i] * points[:, j] for i, j in combinations(range(points.shape[1]), 2)]
    return np.column_stack([points, 2 * points**2 - 1, *pairs])[:, :moments]


def _seconds(call):
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def linear_program_ratio():
    """Compare with scipy.optimize.linprog(method="highs") at R = 70, C = 10,000."""
    matrix, target = _problem(11, 70, 10_000, noise=0.02)
    count, moments = matrix.shape
    equal = np.zeros((moments + 1, count + 2 * moments))
    equal[:moments, :count] = matrix.T
    equal[:moments, count : count + moments] = np.eye(moments)
    equal[:moments, count + moments :] = -np.eye(moments)
    equal[moments, :count] = 1.0
    cost = np.r_[np.zeros(count), np.ones(2 * moments)]
    fit_linear_program(matrix[:100], target)
    ours, fit = _seconds(lambda: fit_linear_program(matrix, target))
    theirs, reference = _seconds(lambda: linprog(cost, A_eq=equal, b_eq=np.r_[target, 1.0], method="highs"))
    return {
        "moments": moments,
        "candidates": count,
        "seconds": round(ours, 3),
        "linprog_seconds": round(theirs, 3),
        "times_faster": round(theirs / ours, 1),
        "optimum": fit.residual,
        "optimum_difference": abs(fit.residual - reference.fun),
    }


def maximum_entropy_ratio():
    """Compare with our own linear program at R = 230, C = 10,000."""
    matrix, target = _problem(20, 230, 10_000, noise=0.02)
    fit_linear_program(matrix[:100], target)
    program, _ = _seconds(lambda: fit_linear_program(matrix, target))
    entropy, fit = _seconds(lambda: fit_maximum_entropy(matrix, target, scale=0.02))
    return {
        "moments": len(target),
        "candidates": len(matrix),
        "seconds": round(entropy, 3),
        "linear_program_seconds": round(program, 3),
        "times_faster": round(program / entropy, 1),
        "steps": fit.steps,
        "converged": fit.converged,
    }


def large_fit(columns, moments, candidates, noise):
    """Fit moments of degree 2 from computed features; the peak memory is that of the whole process."""
    rows, points, rng = _rows_and_points(columns, candidates)
    features = lowest(moments, columns)
    target = computed_features([(features, rows)]).adjoint(np.full(len(rows), 1.0 / len(rows)))
    target += noise * rng.normal(size=moments)
    told = [time.perf_counter()]
    wall = time.perf_counter()
    seconds, fit = _seconds(
        lambda: fit_maximum_entropy(
            computed_features([(features, points)]),
            target,
            scale=noise,
            progress=lambda *_: told.append(time.perf_counter()),
        )
    )
    # Linux tells kilobytes, macOS bytes.
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return {
        "moments": moments,
        "candidates": candidates,
        "noise": noise,
        "cpu_seconds": round(seconds, 1),
        "wall_seconds": round(time.perf_counter() - wall, 1),
        "steps": fit.steps,
        "converged": fit.converged,
        "gradient": float(f"{fit.residual:.2g}"),
        "rows_in_effect": round(1.0 / float(fit.weights @ fit.weights)),
        "longest_silence": round(float(np.diff(told).max()), 1),
        "peak_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="time and memory of large maximum-entropy fits")
    parser.add_argument("--one", type=float, nargs=4, help="one of them: columns, moments, candidates, noise")
    given = parser.parse_args()
    if given.one:
        *sizes, noise = given.one
        print(json.dumps(large_fit(*map(int, sizes), noise)))
    elif given.large:
        for problem in LARGE:
            subprocess.run([sys.executable, "-m", "benchmarks", "fit", "--one", *map(str, problem)], check=True)
    else:
        print("linear program ", linear_program_ratio())
        print("maximum entropy", maximum_entropy_ratio())
