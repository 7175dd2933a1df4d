// Robust weighted least squares in the logarithms of positive parameters, each with bounds and held by a prior.
// docs/calibration.md#fit
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace zplan {

struct FitParameter {
  std::string name;
  double prior = 1;           // the value without any measurement
  double relative_error = 1;  // standard error of the prior over its value
  double lower = 0, upper = 0;
};

// Residuals at the given values, in the order of the parameters: ln(predicted / measured) / noise of each
// measurement. As many at every call. Throws nothing.
using Residuals = std::function<std::vector<double>(const std::vector<double>& values)>;

enum class Undetermined {
  No,
  NoEffect,    // no measurement moves with it
  Weak,        // its error would hardly be smaller than the prior's
  Correlated,  // the measurements say something only about it and another together
  AtBound,     // the best value lies at a bound: another cause pulls it there
};

struct FittedParameter {
  double value = 0;
  double relative_error = 0;     // the prior's own where it was left at the prior
  std::size_t measurements = 0;  // residuals that it moves noticeably and that are no outliers
  Undetermined why = Undetermined::No;
  std::string with;  // the other parameter, for Correlated
  bool fitted() const { return why == Undetermined::No; }
};

struct Fit {
  std::vector<FittedParameter> parameters;  // in the order asked
  std::vector<double> weights;              // of each residual; 0: an outlier that counts nothing
  double scale = 1;                         // how much wider than their noise the residuals are; never below 1
};

// Fits the parameters that the residuals determine and leaves the others at their priors. Standard errors count what
// the priors of the others leave open. A residual far outside its noise loses its weight (Huber, then Tukey's
// bisquare).
Fit fit(const std::vector<FitParameter>& parameters, const Residuals& residuals);

}  // namespace zplan
