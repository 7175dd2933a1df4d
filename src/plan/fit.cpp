#include "plan/fit.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace zplan {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double huber = 2;     // residuals beyond this many noises count linearly
constexpr double bisquare = 6;  // and beyond this many not at all, once the fit stands
constexpr double weak = 0.7;    // an error above this share of the prior's is not worth replacing the prior
constexpr double hopeless = 0.97;
constexpr double correlated = 0.95;
constexpr double noticeable = 0.02;  // of a residual's noise, for a change of one prior error

enum class Loss { Huber, Bisquare };

double weight(double r, Loss loss) {
  const double size = std::abs(r);
  if (loss == Loss::Huber) return size <= huber ? 1 : huber / size;
  if (size >= bisquare) return 0;
  const double u = 1 - (r / bisquare) * (r / bisquare);
  return u * u;
}

double rho(double r, Loss loss) {
  const double size = std::abs(r);
  if (loss == Loss::Huber) return size <= huber ? r * r : 2 * huber * size - huber * huber;
  const double third = bisquare * bisquare / 3;
  if (size >= bisquare) return third;
  const double u = 1 - (r / bisquare) * (r / bisquare);
  return third * (1 - u * u * u);
}

// The state of one fit: parameters as logarithms over their priors, some of them held at 0.
class Fitter {
 public:
  Fitter(const std::vector<FitParameter>& parameters, const Residuals& residuals)
      : p_(parameters),
        residuals_(residuals),
        logs_(VectorXd::Zero(size())),
        held_(parameters.size(), Undetermined::No),
        with_(parameters.size()) {}

  void hold_what_has_no_effect() {
    const MatrixXd j = jacobian(at(logs_), all());
    for (Eigen::Index i = 0; i < size(); ++i) {
      if (j.rows() == 0 || j.col(i).cwiseAbs().maxCoeff() * error(i) < noticeable) hold(i, Undetermined::NoEffect);
    }
  }

  void minimize(Loss loss) {
    for (int round = 0; round < 30; ++round) {
      const VectorXd r = at(logs_);
      const VectorXd step = direction(r, loss);
      double length = 1;
      for (; length > 1e-3; length /= 2) {
        const VectorXd moved = clamped(logs_ + length * step);
        if (cost(moved, loss) < cost(logs_, loss) - 1e-9) {
          logs_ = moved;
          break;
        }
      }
      if (length <= 1e-3) return;
    }
  }

  // Holds the least determined of the free parameters at its prior; false: all are determined.
  bool hold_the_worst() {
    const MatrixXd c = covariance();
    const std::vector<Eigen::Index> f = free();
    if (hold_hopeless(c, f)) return true;
    Eigen::Index worst = -1;
    double ratio = weak;
    Undetermined why = Undetermined::Weak;
    for (std::size_t k = 0; k < f.size(); ++k) {
      const double share = std::sqrt(c(k, k)) / error(f[k]);
      if (share > ratio) worst = f[k], ratio = share;
    }
    if (worst < 0) {
      for (std::size_t k = 0; k < f.size() && worst < 0; ++k) {
        if (at_bound(f[k])) worst = f[k], why = Undetermined::AtBound;
      }
    }
    for (std::size_t a = 0; a < f.size() && worst < 0; ++a) {
      for (std::size_t b = a + 1; b < f.size() && worst < 0; ++b) {
        if (std::abs(c(a, b)) < correlated * std::sqrt(c(a, a) * c(b, b))) continue;
        const bool first = std::sqrt(c(a, a)) / error(f[a]) > std::sqrt(c(b, b)) / error(f[b]);
        worst = first ? f[a] : f[b];
        why = Undetermined::Correlated;
        with_[worst] = p_[first ? f[b] : f[a]].name;
      }
    }
    if (worst < 0) return false;
    if (why == Undetermined::Weak) name_partner(worst, c, f);
    hold(worst, with_[worst].empty() ? why : Undetermined::Correlated);
    return true;
  }

  Fit result() const {
    Fit out;
    const VectorXd r = at(logs_);
    const VectorXd errors = considered_errors();
    const MatrixXd j = jacobian(r, all());
    out.scale = scale();
    for (Eigen::Index i = 0; i < r.size(); ++i) out.weights.push_back(weight(r[i], Loss::Bisquare));
    for (Eigen::Index i = 0; i < size(); ++i) {
      FittedParameter f;
      f.why = held_[i];
      f.with = with_[i];
      f.value = p_[i].prior * std::exp(logs_[i]);
      f.relative_error = f.fitted() ? std::min(errors[i], p_[i].relative_error) : p_[i].relative_error;
      for (Eigen::Index k = 0; k < r.size(); ++k) {
        f.measurements += std::abs(j(k, i)) * error(i) >= noticeable && out.weights[k] > 0 ? 1 : 0;
      }
      out.parameters.push_back(f);
    }
    return out;
  }

 private:
  Eigen::Index size() const { return static_cast<Eigen::Index>(p_.size()); }
  double error(Eigen::Index i) const { return p_[i].relative_error; }
  void hold(Eigen::Index i, Undetermined why) { held_[i] = why, logs_[i] = 0; }
  std::vector<Eigen::Index> free() const {
    std::vector<Eigen::Index> f;
    for (Eigen::Index i = 0; i < size(); ++i) {
      if (held_[i] == Undetermined::No) f.push_back(i);
    }
    return f;
  }

  VectorXd at(const VectorXd& logs) const {
    std::vector<double> values(p_.size());
    for (Eigen::Index i = 0; i < size(); ++i) values[i] = p_[i].prior * std::exp(logs[i]);
    const std::vector<double> r = residuals_(values);
    return Eigen::Map<const VectorXd>(r.data(), static_cast<Eigen::Index>(r.size()));
  }

  // How the residuals `r`, those of `logs`, move with each of the given parameters.
  MatrixXd jacobian(const VectorXd& r, const std::vector<Eigen::Index>& of) const {
    constexpr double step = 1e-4;
    MatrixXd j(r.size(), static_cast<Eigen::Index>(of.size()));
    for (std::size_t k = 0; k < of.size(); ++k) {
      VectorXd moved = logs_;
      moved[of[k]] += step;
      j.col(k) = (at(moved) - r) / step;
    }
    return j;
  }
  std::vector<Eigen::Index> all() const {
    std::vector<Eigen::Index> a(p_.size());
    std::iota(a.begin(), a.end(), 0);
    return a;
  }

  double cost(const VectorXd& logs, Loss loss) const {
    double sum = 0;
    for (const double r : at(logs)) sum += rho(r, loss);
    for (Eigen::Index i = 0; i < size(); ++i) sum += logs[i] * logs[i] / (error(i) * error(i));
    return sum;
  }

  VectorXd weights(const VectorXd& r, Loss loss) const {
    return r.unaryExpr([loss](double x) { return weight(x, loss); });
  }

  // Information of data (divided by `data_scale`) and priors about the free parameters.
  MatrixXd information(const MatrixXd& j, const VectorXd& w, double data_scale) const {
    MatrixXd a = j.transpose() * w.asDiagonal() * j / data_scale;
    const auto f = free();
    for (std::size_t k = 0; k < f.size(); ++k) a(k, k) += 1 / (error(f[k]) * error(f[k]));
    return a;
  }

  VectorXd direction(const VectorXd& r, Loss loss) const {
    const auto f = free();
    VectorXd step = VectorXd::Zero(size());
    if (f.empty()) return step;
    const MatrixXd j = jacobian(r, f);
    const VectorXd w = weights(r, loss);
    VectorXd b = -(j.transpose() * w.asDiagonal() * r);
    for (std::size_t k = 0; k < f.size(); ++k) b[k] -= logs_[f[k]] / (error(f[k]) * error(f[k]));
    const VectorXd d = information(j, w, 1).ldlt().solve(b);
    for (std::size_t k = 0; k < f.size(); ++k) step[f[k]] = std::clamp(d[k], -1.0, 1.0);
    return step;
  }

  VectorXd clamped(VectorXd logs) const {
    for (Eigen::Index i = 0; i < size(); ++i) {
      logs[i] = std::clamp(logs[i], std::log(p_[i].lower / p_[i].prior), std::log(p_[i].upper / p_[i].prior));
    }
    return logs;
  }
  bool at_bound(Eigen::Index i) const {
    const double value = p_[i].prior * std::exp(logs_[i]);
    return value <= p_[i].lower * 1.0001 || value >= p_[i].upper * 0.9999;
  }

  // Variance of the residuals that count, over what their noise leads to expect.
  double scale() const {
    const VectorXd r = at(logs_), w = weights(r, Loss::Bisquare);
    const double left = w.sum() - static_cast<double>(free().size());
    if (left < 1) return 1;
    return std::max(1.0, (w.array() * r.array().square()).sum() / left);
  }

  MatrixXd covariance() const {
    const VectorXd r = at(logs_);
    const MatrixXd a = information(jacobian(r, free()), weights(r, Loss::Bisquare), scale());
    return a.inverse();
  }

  // With the errors of the parameters that were held at their priors: what the fitted ones would move if those were
  // off by as much as they may be.
  VectorXd considered_errors() const {
    VectorXd out = VectorXd::Zero(size());
    const auto f = free();
    if (f.empty()) return out;
    const VectorXd r = at(logs_), w = weights(r, Loss::Bisquare);
    const MatrixXd j = jacobian(r, f);
    const double s = scale();
    const MatrixXd c = information(j, w, s).inverse();
    MatrixXd total = c;
    std::vector<Eigen::Index> others;
    for (Eigen::Index i = 0; i < size(); ++i) {
      if (held_[i] != Undetermined::No && held_[i] != Undetermined::NoEffect) others.push_back(i);
    }
    const MatrixXd by = jacobian(r, others);
    for (std::size_t k = 0; k < others.size(); ++k) {
      const VectorXd moved = c * (j.transpose() * w.asDiagonal() * by.col(k)) * (error(others[k]) / s);
      total += moved * moved.transpose();
    }
    for (std::size_t k = 0; k < f.size(); ++k) out[f[k]] = std::sqrt(total(k, k));
    return out;
  }

  // Those that the measurements say next to nothing about, all at once.
  bool hold_hopeless(const MatrixXd& c, const std::vector<Eigen::Index>& f) {
    bool any = false;
    for (std::size_t k = 0; k < f.size(); ++k) {
      if (std::sqrt(c(k, k)) < hopeless * error(f[k])) continue;
      hold(f[k], Undetermined::Weak);
      any = true;
    }
    return any;
  }

  // A parameter can be weak although measurements move with it: then another explains them as well.
  void name_partner(Eigen::Index worst, const MatrixXd& c, const std::vector<Eigen::Index>& f) {
    const auto a = static_cast<std::size_t>(std::find(f.begin(), f.end(), worst) - f.begin());
    double strongest = 0.5;
    for (std::size_t b = 0; b < f.size(); ++b) {
      const double rho = std::abs(c(a, b)) / std::sqrt(c(a, a) * c(b, b));
      if (b == a || rho <= strongest) continue;
      strongest = rho;
      with_[worst] = p_[f[b]].name;
    }
  }

  const std::vector<FitParameter>& p_;
  const Residuals& residuals_;
  VectorXd logs_;
  std::vector<Undetermined> held_;
  std::vector<std::string> with_;
};

}  // namespace

Fit fit(const std::vector<FitParameter>& parameters, const Residuals& residuals) {
  Fitter f(parameters, residuals);
  f.hold_what_has_no_effect();
  do {
    f.minimize(Loss::Huber);
    f.minimize(Loss::Bisquare);
  } while (f.hold_the_worst());
  return f.result();
}

}  // namespace zplan
