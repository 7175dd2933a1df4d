// The quantities that add up: bytes, elements, tokens (exact integers), flops and seconds (doubles).
// Elements become bytes only where a width is named; memory is binary, bandwidth is decimal.
#pragma once

#include <compare>
#include <cstdint>

namespace zplan {

// A count of bytes. Exact: memory adds up or the plan is wrong.
struct Bytes {
  std::int64_t count = 0;
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {a.count + b.count}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return {a.count - b.count}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return {a.count * n}; }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return {a.count * n}; }
  friend constexpr Bytes operator/(Bytes a, std::int64_t n) { return {a.count / n}; }
  constexpr Bytes& operator+=(Bytes b) { count += b.count; return *this; }
  constexpr Bytes& operator-=(Bytes b) { count -= b.count; return *this; }
};

constexpr Bytes KiB(std::int64_t n) { return {n << 10}; }
constexpr Bytes MiB(std::int64_t n) { return {n << 20}; }
constexpr Bytes GiB(std::int64_t n) { return {n << 30}; }
constexpr double in_gib(Bytes b) { return static_cast<double>(b.count) / (1024.0 * 1024.0 * 1024.0); }

// A count of tensor elements, without a width.
struct Elements {
  std::int64_t count = 0;
  friend constexpr auto operator<=>(Elements, Elements) = default;
  friend constexpr Elements operator+(Elements a, Elements b) { return {a.count + b.count}; }
  friend constexpr Elements operator-(Elements a, Elements b) { return {a.count - b.count}; }
  friend constexpr Elements operator*(Elements a, std::int64_t n) { return {a.count * n}; }
  friend constexpr Elements operator*(std::int64_t n, Elements a) { return {a.count * n}; }
  constexpr Elements& operator+=(Elements b) { count += b.count; return *this; }
};
constexpr Bytes operator*(Elements n, Bytes width) { return {n.count * width.count}; }

// Tokens of a micro-batch, a batch or a step.
struct Tokens {
  std::int64_t count = 0;
  friend constexpr auto operator<=>(Tokens, Tokens) = default;
};

// Floating-point operations; one multiply-add counts two.
struct Flops {
  double count = 0;
  friend constexpr auto operator<=>(Flops, Flops) = default;
  friend constexpr Flops operator+(Flops a, Flops b) { return {a.count + b.count}; }
  friend constexpr Flops operator*(double n, Flops a) { return {n * a.count}; }
};

struct Seconds {
  double count = 0;
  friend constexpr auto operator<=>(Seconds, Seconds) = default;
  friend constexpr Seconds operator+(Seconds a, Seconds b) { return {a.count + b.count}; }
  friend constexpr Seconds operator-(Seconds a, Seconds b) { return {a.count - b.count}; }
  friend constexpr Seconds operator*(double n, Seconds a) { return {n * a.count}; }
  constexpr Seconds& operator+=(Seconds b) { count += b.count; return *this; }
};

// ceil(a / b) for positive b.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
// a rounded up to a multiple of step.
constexpr std::int64_t round_up(std::int64_t a, std::int64_t step) { return ceil_div(a, step) * step; }

}  // namespace zplan
