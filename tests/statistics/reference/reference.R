# The same study fitted in R, for test_against_r.py. From the folder of the repository:
#
#   Rscript tests/statistics/reference/reference.R tests/statistics/reference
#
# Reads pairs.csv; writes mixed_models.csv, contrasts.csv, cells.csv, quantiles.csv, versions.txt.

suppressPackageStartupMessages({
  library(lme4); library(lmerTest); library(emmeans); library(clubSandwich); library(mvtnorm)
})
set.seed(1)
emm_options(lmer.df = "kenward-roger", opt.digits = FALSE)
folder <- commandArgs(trailingOnly = TRUE)[1]
write <- function(frame, name) {
  for (column in names(frame)) if (is.double(frame[[column]]))
    frame[[column]] <- formatC(frame[[column]], digits = 15, format = "g", width = 1)
  write.csv(frame, file.path(folder, name), row.names = FALSE, quote = FALSE)
}

races <- c("White", "African", "Asian", "Hispanic")
pairs <- read.csv(file.path(folder, "pairs.csv"))
pairs$race <- factor(pairs$race, levels = races)
pairs$gender <- factor(pairs$gender, levels = c("man", "woman"))
pairs$format <- factor(pairs$format)

# Terms as the fits table writes them.
rename <- function(terms) {
  terms <- sub("(Intercept)", "Intercept", terms, fixed = TRUE)
  terms <- sub("race(African|Asian|Hispanic)", "race[\\1]", terms)
  sub("genderwoman", "gender[woman]", terms)
}
zscore <- function(x) (x - mean(x)) / sd(x)
average <- function(frame)
  aggregate(cosine ~ gender + race + format, data = frame, FUN = mean)
# The quantile of the largest |t| of several; 0 degrees of freedom stand for the normal.
largest <- function(correlation, df) {
  excess <- function(q) {
    set.seed(1)
    side <- rep(q, nrow(correlation))
    inside <- pmvt(-side, side, df = df, corr = correlation,
                   algorithm = GenzBretz(maxpts = 1e5, abseps = 1e-5))
    as.numeric(inside) - 0.95
  }
  uniroot(excess, c(1.5, 12), tol = 1e-5)$root
}
control <- lmerControl(optCtrl = list(xtol_abs = 1e-14, ftol_abs = 1e-14, maxeval = 1e5))

# ---- mixed models: z ~ race * gender + (1 | format), by REML, on pairs and on cell means
describe <- function(study, level, frame) {
  frame$z <- zscore(frame$cosine)
  fit <- lmerTest::lmer(z ~ race * gender + (1 | format), frame, REML = TRUE, control = control)
  found <- coef(summary(fit, ddf = "Satterthwaite"))
  variance <- as.data.frame(VarCorr(fit))$vcov
  data.frame(
    study = study, level = level, term = rename(rownames(found)),
    estimate = found[, "Estimate"], std_error = found[, "Std. Error"], df = found[, "df"],
    p_t = found[, "Pr(>|t|)"], p_normal = 2 * pnorm(-abs(found[, "t value"])),
    var_block = variance[1], var_residual = variance[2], loglik = as.numeric(logLik(fit)),
    outcome_mean = mean(frame$cosine), outcome_sd = sd(frame$cosine), row.names = NULL
  )
}
uneven <- pairs[pairs$uneven == 1, ]
write(rbind(
  describe("even", "pairwise", pairs), describe("even", "cell", average(pairs)),
  describe("uneven", "pairwise", uneven), describe("uneven", "cell", average(uneven))
), "mixed_models.csv")

# ---- contrasts of the cell means, in cosines: emmeans on the mixed model, intervals at once
means <- average(pairs)
fit <- lmerTest::lmer(cosine ~ race * gender + (1 | format), means, control = control)
grid <- emmeans(fit, ~ race * gender)
of_race <- contrast(emmeans(fit, ~ race), "trt.vs.ctrl", ref = "White")
of_gender <- contrast(emmeans(fit, ~ gender), "trt.vs.ctrl", ref = "man")
among_men <- contrast(emmeans(fit, ~ race, at = list(gender = "man")), "trt.vs.ctrl", ref = "White")
of_white <- contrast(emmeans(fit, ~ gender, at = list(race = "White")), "trt.vs.ctrl", ref = "man")
crossed <- contrast(grid, interaction = "trt.vs.ctrl", ref = 1)

race_terms <- paste0("race[", races[-1], "]")
crossed_terms <- paste0(race_terms, ":gender[woman]")
join <- function(...) rbind(..., adjust = "none")
families <- list(
  treatment = list(join(among_men, of_white, crossed), c(race_terms, "gender[woman]", crossed_terms)),
  marginal = list(join(of_race, of_gender), c(race_terms, "gender[woman]")),
  interaction = list(crossed, crossed_terms)
)
described <- lapply(names(families), function(coding) {
  family <- families[[coding]][[1]]
  own <- as.data.frame(summary(family, infer = c(TRUE, TRUE), adjust = "none"))
  joint <- as.data.frame(summary(family, infer = c(TRUE, FALSE), adjust = "mvt"))
  covariance <- vcov(family)
  quantile <- largest(cov2cor(covariance), round(own$df[1]))
  data.frame(
    coding = coding, term = families[[coding]][[2]], estimate = own$estimate, std_error = own$SE,
    df = own$df, p_value = own$p.value, low = own$lower.CL, high = own$upper.CL,
    emmeans_low = joint$lower.CL, emmeans_high = joint$upper.CL, quantile = quantile
  )
})
contrasts <- do.call(rbind, described)

# ---- formats random: least squares on the cell means, clustered by format
plain <- lm(cosine ~ 0 + race:gender, means)
# The rows of linfct turn coefficients into contrasts, those of the grid into the groups' means.
weigh <- function(coding) families[[coding]][[1]]@linfct %*% solve(grid@linfct)
robust <- function(coding) {
  weights <- weigh(coding)
  groups <- paste0("race", rep(races, 2), ":gender", rep(c("man", "woman"), each = 4))
  weights <- weights[, match(names(coef(plain)), groups), drop = FALSE]
  found <- function(type, test) linear_contrast(
    plain, vcov = vcovCR(plain, cluster = means$format, type = type), contrasts = weights,
    test = test, p_values = TRUE
  )
  one <- found("CR1", "naive-t")
  two <- found("CR2", "Satterthwaite")
  data.frame(cr1_error = one$SE, cr1_p = one$p_val, cr2_error = two$SE, cr2_df = two$df,
             cr2_p = two$p_val)
}
contrasts <- cbind(contrasts, do.call(rbind, lapply(names(families), robust)))

# ---- formats fixed: the variance of each mean cosine from its pairs, by brute force
brute <- function(cell) {
  n <- max(cell$second)
  jackknife <- sapply(1:n, function(i) mean(cell$cosine[cell$first != i & cell$second != i]))
  apart <- outer(1:nrow(cell), 1:nrow(cell), function(a, b)
    cell$first[a] != cell$first[b] & cell$first[a] != cell$second[b] &
      cell$second[a] != cell$first[b] & cell$second[a] != cell$second[b])
  products <- outer(cell$cosine, cell$cosine)
  m <- mean(cell$cosine)
  data.frame(
    format = cell$format[1], race = cell$race[1], gender = cell$gender[1], texts = n, mean = m,
    jackknife = (n - 1) / n * sum((jackknife - mean(jackknife))^2),
    # Never less than the variance of a mean of independent pairs.
    unbiased = m^2 - mean(products[apart]), least = var(cell$cosine) / nrow(cell)
  )
}
cells <- do.call(rbind, lapply(split(pairs, ~ gender + race + format, drop = TRUE), brute))
write(cells, "cells.csv")

fixed <- function(coding) {
  groups <- expand.grid(race = races, gender = c("man", "woman"))
  weights <- weigh(coding)
  blocks <- nlevels(pairs$format)
  part <- sapply(1:nrow(groups), function(g) {
    one <- cells[cells$race == groups$race[g] & cells$gender == groups$gender[g], ]
    taken <- pmax(one$unbiased, one$least)
    c(sum(taken) / blocks^2, sum(taken^2 / (one$texts - 1)) / blocks^4)
  })
  variance <- weights^2 %*% part[1, ]
  data.frame(fixed_error = sqrt(variance), fixed_df = variance^2 / (weights^4 %*% part[2, ]))
}
contrasts <- cbind(contrasts, do.call(rbind, lapply(names(families), fixed)))
write(contrasts, "contrasts.csv")

# ---- the quantile of the largest |t| of a family, for given correlations and degrees of freedom
equal <- function(k, rho) matrix(rho, k, k) + diag(1 - rho, k)
correlations <- list(
  independent = diag(5), half = equal(3, 0.5), high = equal(6, 0.9),
  treatment = cov2cor(vcov(families$treatment[[1]]))
)
grids <- expand.grid(name = names(correlations), df = c(3, 12, 84, 0), stringsAsFactors = FALSE)
grids$quantile <- mapply(function(name, df) largest(correlations[[name]], df), grids$name, grids$df)
write(grids, "quantiles.csv")
packages <- c("lme4", "lmerTest", "pbkrtest", "emmeans", "clubSandwich", "mvtnorm")
versions <- sapply(packages, function(each) as.character(packageVersion(each)))
writeLines(c(R.version.string, paste(packages, versions)), file.path(folder, "versions.txt"))
