# The lines of make_tasks.py fitted in R, for test_task_slopes.py. From the folder of the repository:
#
#   Rscript tests/statistics/reference/tasks.R tests/statistics/reference
#
# Reads tasks.csv; writes task_models.csv.

suppressPackageStartupMessages({ library(lme4); library(lmerTest) })
folder <- commandArgs(trailingOnly = TRUE)[1]
tasks <- read.csv(file.path(folder, "tasks.csv"))
tasks$task <- factor(tasks$task)
control <- lmerControl(
  optimizer = "bobyqa", optCtrl = list(rhoend = 1e-12, maxfun = 1e5),
  check.conv.singular = "ignore"
)
formulas <- list(
  "intercept" = similarity ~ realised + (1 | task),
  "intercept + slope" = similarity ~ realised + (1 + realised | task)
)

describe <- function(study, level, random) {
  frame <- tasks[tasks$study == study, ]
  if (level == "task") frame <- aggregate(similarity ~ task + realised, data = frame, FUN = mean)
  fit <- lmerTest::lmer(formulas[[random]], frame, REML = TRUE, control = control)
  found <- coef(summary(fit, ddf = "Satterthwaite"))
  variance <- as.data.frame(VarCorr(fit))
  value <- function(column, first, second) {
    chosen <- variance$grp == "task" & variance$var1 %in% first & variance$var2 %in% second
    if (any(chosen)) variance[chosen, column] else NA
  }
  data.frame(
    study = study, level = level, random = random, term = c("intercept", "rate"),
    estimate = found[, "Estimate"], std_error = found[, "Std. Error"], df = found[, "df"],
    p_t = found[, "Pr(>|t|)"], p_normal = 2 * pnorm(-abs(found[, "t value"])),
    var_intercept = value("vcov", "(Intercept)", NA), var_slope = value("vcov", "realised", NA),
    correlation = value("sdcor", "(Intercept)", "realised"), var_residual = sigma(fit)^2,
    deviance = -2 * as.numeric(logLik(fit)), n = nobs(fit), singular = isSingular(fit),
    row.names = NULL
  )
}
grid <- expand.grid(
  random = names(formulas), level = c("pair", "task"), study = unique(tasks$study),
  stringsAsFactors = FALSE
)
models <- do.call(rbind, Map(describe, grid$study, grid$level, grid$random))
for (column in names(models)) if (is.double(models[[column]]))
  models[[column]] <- ifelse(
    is.na(models[[column]]), "", formatC(models[[column]], digits = 15, format = "g", width = 1)
  )
write.csv(models, file.path(folder, "task_models.csv"), row.names = FALSE, quote = FALSE)
