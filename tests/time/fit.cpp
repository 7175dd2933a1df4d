#include "tests/time/fit.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "time/step_time.h"

namespace zplan::testing {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

// How far a whole step and a synchronised phase of one machine repeat, in logarithms.
constexpr double step_noise = 0.08, phase_noise = 0.15;
constexpr double outlier = 2;  // residuals beyond this count linearly (Huber)

const CoefficientEntry& entry(const std::string& name) {
  for (const auto& e : coefficient_table()) {
    if (e.name == name) return e;
  }
  throw std::out_of_range(name);
}

TimeCoefficients scaled(const std::vector<std::string>& names, const Vector& logs) {
  TimeCoefficients c;
  for (std::size_t i = 0; i < names.size(); ++i) (c.*entry(names[i]).member).value *= std::exp(logs[i]);
  return c;
}

Vector residuals(const std::vector<TimedRun>& runs, const std::vector<std::string>& names, const Vector& logs) {
  const TimeCoefficients c = scaled(names, logs), prior;
  Vector r;
  for (const auto& t : runs) {
    const StepTime p = predict_step_time(t.run, t.cluster, c);
    r.push_back(std::log(p.total().count / t.loop_s) / step_noise);
    r.push_back(std::log(p.forward_s / t.forward_s) / phase_noise);
    r.push_back(std::log(p.last_backward_s / t.backward_s) / phase_noise);
    r.push_back(std::log(p.step_s / t.step_s) / phase_noise);
  }
  for (std::size_t i = 0; i < names.size(); ++i) r.push_back(logs[i] / (prior.*entry(names[i]).member).relative_error);
  return r;
}

double weight(double r) { return std::abs(r) <= outlier ? 1 : outlier / std::abs(r); }

double cost(const Vector& r) {
  double sum = 0;
  for (const double v : r) sum += std::abs(v) <= outlier ? v * v : 2 * outlier * std::abs(v) - outlier * outlier;
  return sum;
}

Vector solve(Matrix a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t k = i; k < n; ++k) pivot = std::abs(a[k][i]) > std::abs(a[pivot][i]) ? k : pivot;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t k = i + 1; k < n; ++k) {
      const double f = a[k][i] / a[i][i];
      for (std::size_t j = i; j < n; ++j) a[k][j] -= f * a[i][j];
      b[k] -= f * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t j = i + 1; j < n; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

// One Gauss-Newton direction; weights of the current residuals make it robust.
Vector direction(const std::vector<TimedRun>& runs, const std::vector<std::string>& names, const Vector& logs,
                 const Vector& r) {
  constexpr double step = 1e-4;
  const std::size_t n = logs.size();
  Matrix jacobian(n);
  for (std::size_t j = 0; j < n; ++j) {
    Vector moved = logs;
    moved[j] += step;
    jacobian[j] = residuals(runs, names, moved);
    for (std::size_t i = 0; i < r.size(); ++i) jacobian[j][i] = (jacobian[j][i] - r[i]) / step;
  }
  Matrix a(n, Vector(n));
  Vector b(n);
  for (std::size_t i = 0; i < r.size(); ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      b[j] -= weight(r[i]) * jacobian[j][i] * r[i];
      for (std::size_t k = 0; k < n; ++k) a[j][k] += weight(r[i]) * jacobian[j][i] * jacobian[k][i];
    }
  }
  return solve(std::move(a), std::move(b));
}

}  // namespace

TimeCoefficients fitted(const std::vector<TimedRun>& runs, const std::vector<std::string>& names) {
  Vector logs(names.size());
  for (int round = 0; round < 30; ++round) {
    const Vector r = residuals(runs, names, logs);
    const Vector d = direction(runs, names, logs, r);
    double length = 1;
    for (; length > 1e-3; length /= 2) {
      Vector moved = logs;
      for (std::size_t j = 0; j < logs.size(); ++j) moved[j] += length * d[j];
      if (cost(residuals(runs, names, moved)) < cost(r)) {
        logs = moved;
        break;
      }
    }
    if (length <= 1e-3) break;
  }
  return scaled(names, logs);
}

}  // namespace zplan::testing
