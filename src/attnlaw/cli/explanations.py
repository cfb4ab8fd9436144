"""One paragraph on every printed quantity, with its equation number (docs/theory.md)."""

import difflib

LONG = {
    "train_loss": (
        "The training objective divided by d², L/d² = (1/d²)[Σ ℓ + λ‖W‖²_F] at its minimum, "
        "penalty included. The theory gives its limit Φ as the stationary value of equation "
        "(4.2); by (4.3) it is also α·train_error + λ̃·Tr S/d."
    ),
    "train_error": (
        "The mean loss of one training sequence, Σ_ab (Y_ab − A_ab)² over all T² entries, "
        "without the penalty: E ℓ(h*) at the proximal point h* of equation (3.1). Multiply by α"
        " to get its share of train_loss (4.3)."
    ),
    "test_error": (
        "The mean of Σ_ab (Y_ab − A_ab)² on fresh sequences whose labels carry the same noise Δ"
        " as the training labels, equation (4.4). It is the squared error of attention whatever"
        " the training loss is, and it does not vanish for a perfect layer when Δ > 0."
    ),
    "test_error_clean": (
        "test_error against noiseless labels: the same average (4.4) with Q0 in place of Q0 + "
        "Δ/2. It vanishes when S = (β0/β)·S0."
    ),
    "mse": (
        "‖S − S0‖²_F/d = Q0 − 2m + q, equation (4.4): squared distance of the learned query–key"
        " map to the target. With β0 ≠ β the best map is (β0/β)·S0 and mse does not vanish "
        "there."
    ),
    "q": ("q = Tr S²/d, the power of the learned map, from q = η²J(δ, ε), equation (4.1)."),
    "m": ("m = Tr S S0/d, the overlap of the learned map with the target, equation (4.1)."),
    "Q0": (
        "Q0 = Tr S0²/d of the target that was drawn for this layer. Its limit is 1 + κ0 for a "
        "Gaussian target (§1); most of the scatter between repeats comes from it."
    ),
    "sigma": (
        "Σ, the response: how far the scores of a training sequence move when that sequence is "
        "taken out, per unit of force on them. It is the step size of the proximal problem "
        "(3.1) and follows from Σ = ∂_δJ/(2δΣ̂), equation (4.1). It grows like 1/λ̃ below the "
        "interpolation threshold."
    ),
    "misalignment": (
        "1 − ρ² with ρ = m/√(q·Q0), the cosine between the learned map and the target. It is "
        "computed by itself, so that it keeps its relative accuracy when noiseless labels bring ρ "
        "next to 1, where q and m could not tell."
    ),
    "q_hat": (
        "q̂ = 2α E|g|², the conjugate of q: variance of the noise that finite samples put into "
        "S, equation (3.2). δ = √q̂/m̂."
    ),
    "m_hat": ("m̂ = 2α D_0, the conjugate of m: strength of the signal, equation (3.3)."),
    "sigma_hat": (
        "Σ̂ = −2α D_ω, the conjugate of Σ: curvature of the objective in the directions of S, "
        "equation (3.3)."
    ),
    "scale": (
        "η = m̂/Σ̂, the factor in the spectral law S = η·ReLU(S0 + δZ − ε), equation (5.1). 1 "
        "means no shrinkage beyond the threshold (for β = β0)."
    ),
    "noise_level": (
        "δ = √q̂/m̂: size of the Gaussian noise that finite samples add to the target inside "
        "the spectral law (5.1); alone it would give a bulk of radius 2δ. It is not the label "
        "noise Δ."
    ),
    "threshold": (
        "ε = 2λ̃/m̂: what weight decay subtracts from every eigenvalue of S0 + δZ before the "
        "negative ones are cut, equation (5.1)."
    ),
    "rank_ratio": (
        "Rank of the learned S over d: F̄(ε) = μ_δ((ε, ∞)), equation (2.5). For trained layers,"
        " eigenvalues above 1e-4 of the largest are counted. It is not κ0, the target's rank."
    ),
    "phase": (
        "The shape of the learned spectrum. collapsed: S = 0, the weight decay is beyond its "
        "critical value (5.3). bulk: one interval of eigenvalues that starts at zero, signal "
        "and noise mixed. outliers: directions of the target stand clear of such a bulk. "
        "recovered: the threshold has removed the noise bulk and only separated directions are "
        "left (§5)."
    ),
    "width_sufficient": (
        "Whether κ ≥ rank_ratio, the width of W exceeds the learned rank. Then the prediction "
        "holds as it is, and does not depend on κ except through λ̃ (§4). Where it is no, the "
        "width binds and the numbers describe a wider layer."
    ),
    "weight_decay": ("λ, the penalty λ‖W‖²_F on the factor, equation (1.4)."),
    "weight_decay_scaled": (
        "λ̃ = √κ·λ: the same penalty as S sees it, d·λ̃·‖S‖_* with the nuclear norm, equation (1.5)."
    ),
    "converged": (
        "For the theory: the residual met its tolerance, the larger of 1e-6 and twice largest_jump"
        " (at most 1e-2). For a trained layer: relative_gradient met the tolerance of the "
        "optimiser. A number whose converged is no should not be compared with anything."
    ),
    "residual": (
        "The largest change of (k log q, atanh ρ, log Σ) under one more undamped application of "
        "the state-evolution map (3.2)–(4.1); ρ = m/√(q·Q0), k = 1/√(1 − ρ²·Q0/(Q0 + Δ/2))."
    ),
    "tolerance": (
        "The residual that counts as converged: 1e-6, or twice largest_jump where single points "
        "jump, but never above 1e-2."
    ),
    "trace": (
        "Tr S/d, which weight decay on W penalises: train_loss = α·train_error + λ̃·trace, equation "
        "(4.3)."
    ),
    "atom": (
        "The share of eigenvalues of S that are exactly zero, one minus rank_ratio: what the "
        "threshold ε cuts off, equation (5.1)."
    ),
    "edges": (
        "The intervals [left, right] that carry the nonzero eigenvalues of S, equation (5.1). The "
        "first begins at zero unless the phase is recovered; further ones are directions of the "
        "target that stand clear of the bulk."
    ),
    "iterations": (
        "Evaluations of the state-evolution map (3.2)–(4.1) in the final search, over all Gaussian "
        "points. It starts from a solution found on few points, so three or four are usual; many "
        "mean a hard problem."
    ),
    "integration_error": (
        "Relative standard error of test_error over independent scrambles of the Gaussian "
        "average in (3.1)–(3.3), and of what is left of the residual, enlarged by 1.22 for the "
        "small number of scrambles, so that the true value lies within two of it about as often as "
        "for a Gaussian error."
    ),
    "fixed_points_found": (
        "Distinct solutions of the equations (4.1) met from the different starts (in a curve also "
        "from the neighbours) and, where it is stable, S = 0. With more than one, the numbers are "
        "those of the lowest train_loss (4.2)."
    ),
    "start": (
        "The start that led to the solution: informed (near the target), uninformed (near zero), "
        "interpolating (Σ ∝ 1/λ̃), scanned (along q), recovered (next to S0), continued (from a "
        "larger weight decay), neighbour (in a curve), given, or collapsed for S = 0 (5.3)."
    ),
    "two_minima_fraction": (
        "Share of Gaussian points whose proximal problem (3.1) has two minima or more. Several are "
        "tried and the lowest is taken; where the fraction is not small the map is not smooth, "
        "the lowest may be missed at three tokens or more, and the replica-symmetric solution "
        "itself may be unstable."
    ),
    "largest_jump": (
        "Largest change of (k log q, atanh ρ, log Σ) under the map (3.2)–(4.1) when one Gaussian "
        "point passes from one minimum of its proximal problem (3.1) to the other. The residual "
        "cannot be brought below half of it with certainty; it falls like one over the points."
    ),
    "field": ("The number that varies along a curve, as it was named in --curve."),
    "values": ("The values of that number, one for each entry of the other lists."),
    "converged_at": ("`converged` at each value of a curve; `converged` says whether all are."),
    "reason": ("Why a point did not converge; null where it did."),
    "standard_errors": (
        "Absolute standard errors of the quantities that come from the Gaussian average, by name: "
        "scatter of the mean over eight scrambles, and what is left of the residual. The relative "
        "one of test_error, enlarged for the small number of scrambles, is integration_error."
    ),
    "run": ("The command, seed and sizes that reproduce the numbers."),
    "dim": ("d, the dimension of a token in the layers that were trained (1.1)."),
    "width": ("p = κ·d, columns of W in the layers that were trained (1.1)."),
    "repeats": ("Layers that were trained, each on its own target, data and start."),
    "theory": ("The quantity by the theory for the limit law of the target, d → ∞."),
    "theory_at_target": (
        "The quantity by the theory at the drawn targets' own eigenvalues, mean over repeats. It "
        "takes the scatter between targets of finite size out of the comparison."
    ),
    "trained_mean": ("The quantity in the trained layers, mean over repeats."),
    "trained_std_error": (
        "Standard error of trained_mean over repeats; null with one repeat. Most of it is the "
        "scatter between the drawn targets."
    ),
    "difference": (
        "Mean over repeats of trained − theory at the same drawn target, in units of its own "
        "standard error (column diff./s.e.). With few repeats that error is itself poorly known, "
        "and finite dimension alone shifts the mean by one or two per cent at d = 100; null with "
        "one repeat or no scatter at all."
    ),
    "replicon": (
        "2αE‖∂g/∂ω‖²·R/Σ̂², the factor by which the squared distance of two nearby replicas on the "
        "same data changes in an iteration, equation (4.5). Above one the replica-symmetric answer "
        "is unstable: layers trained there can differ from it. It does not see the jumps of the "
        "proximal step; see jump_weight. Null where S = (β0/β)·S0 exactly."
    ),
    "jump_weight": (
        "χ = −2αE tr(∂g/∂ω)/Σ̂: the derivative of g without its jumps, over the whole. It is one "
        "where the proximal step is continuous; χ − 1 is the weight of its jumps (4.5)."
    ),
    "stable": (
        "Whether the replicon is below one, equation (4.5), so that the replica-symmetric theory "
        "may hold. A solution that is not stable is still printed."
    ),
    "seconds": (
        "Wall-clock time of the optimiser of one layer, without drawing the data and measuring "
        "the test error."
    ),
    "test_error_std_error": (
        "Standard error of a trained layer's test_error from the finite number of fresh test "
        "sequences (200,000 unless changed), equation (4.4)."
    ),
    "relative_gradient": (
        "‖∇L‖·‖W‖/L at the end of training: dimensionless, zero at a minimum of (1.4)."
    ),
    "evaluations": ("Evaluations of the training objective (1.4) and its gradient."),
    "mmse": (
        "Q0 − q of the Bayes-optimal estimator, the posterior mean of the target map: the least "
        "‖Ŝ − S0‖²_F/d that any estimator can reach from the same data, equation (9.2)."
    ),
    "bayes": (
        "The Bayes-optimal baseline (predict --bayes): mmse, q, noise_level and the test errors of "
        "the layer whose map is r times the posterior mean of the target, equation (9.2)."
    ),
    "reasons": ("Why a threshold does not exist, by its name; empty where all do."),
    "alpha_interp": (
        "The sample ratio n/d² up to which the layer trained with vanishing weight decay fits "
        "every noisy label: ∂_δJ(δ̄, 0)/(4 K_eff δ̄) with δ̄ from equation (6.3), K_eff = "
        "(T²+T−2)/2. As Δ → 0 it tends to (1 + 2κ0 − κ0²)/(4 K_eff) for a target of rank κ0 d < d."
    ),
    "noise_level_at_interp": (
        "δ̄, the noise level of S = r·ReLU(S0 + δZ − ε) at alpha_interp, where ε = 0; it solves "
        "Q0 + Δ/2 = J(δ̄, 0) − (δ̄/2)·∂_δJ(δ̄, 0), equation (6.3)."
    ),
    "peak_test_error": (
        "The test error of the ridgeless layer at alpha_interp, where it peaks. It is finite: "
        "there m = r(Q0 + Δ/2) and q = r²·J(δ̄, 0) are, and (4.4) gives the error at them (6.3)."
    ),
    "peak_mse": (
        "‖S − S0‖²_F/d = Q0 − 2m + q of the ridgeless layer at alpha_interp, equations (4.4) "
        "and (6.3)."
    ),
    "alpha_perf": (
        "The sample ratio n/d² beyond which, without label noise, the layer trained with vanishing "
        "weight decay is S = (β0/β)·S0 exactly, equation (6.4). Of the target only its rank "
        "matters. With label noise there is none."
    ),
    "alpha_bayes": (
        "The sample ratio n/d² beyond which, without label noise, the best possible estimator is "
        "exact: (1 − Σw²)/(2 K_eff) over the atoms w of the target, "
        "(2κ0 − κ0²)/(2 K_eff) for a Gaussian target of rank κ0 d < d, equation (6.5). With label "
        "noise there is none."
    ),
    "critical_weight_decay": (
        "The weight decay λ on W beyond which the trained layer is S = 0, at the sample ratio and "
        "width of the problem, equation (5.3)."
    ),
}


def explain(key: str) -> str:
    """The paragraph on a printed quantity.

    Raises:
        ValueError: there is no such quantity.
    """
    if key in LONG:
        return LONG[key]
    near = difflib.get_close_matches(key.lower(), LONG, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(LONG)}"
    raise ValueError(f"key must be a printed quantity, got {key!r}; {hint}")
