#include "io/report_parts.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "io/names.h"
#include "io/text_table.h"
#include "units/text.h"

namespace zplan {
namespace {

constexpr std::size_t kMargin = 12, kWidth = 112;

std::string repeated(const char* what, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += what;
  return out;
}

std::size_t share(Bytes part, Bytes whole, std::size_t width) {
  if (whole.count <= 0 || part.count <= 0) return 0;
  return static_cast<std::size_t>(static_cast<double>(part.count) / static_cast<double>(whole.count) * static_cast<double>(width) + 0.5);
}

std::string formatted(const char* pattern, double value) {
  char out[32];
  std::snprintf(out, sizeof out, pattern, value);
  return out;
}

// As in the JSON, but for people: "gathered parameters".
std::string readable(const char* component) {
  std::string s = component;
  std::replace(s.begin(), s.end(), '_', ' ');
  return s;
}

}  // namespace

std::string gib(Bytes bytes) { return formatted("%.1f", in_gib(bytes)); }

std::string percent(double share) {
  const double p = 100 * share;
  if (p < 0.1) return "less than 0.1 %";
  return formatted(p < 10 ? "%.1f %%" : "%.0f %%", p);
}

std::string times(double ratio) { return formatted(ratio < 10 ? "%.2fx" : "%.0fx", ratio); }

std::string paragraph(const std::string& heading, const std::string& text, const Paint& paint) {
  std::string out = paint.bold(heading) + std::string(kMargin > shown_width(heading) ? kMargin - shown_width(heading) : 1, ' ');
  std::istringstream lines(text);
  bool first_line = true;
  for (std::string line; std::getline(lines, line);) {
    if (!first_line) out += std::string(kMargin, ' ');
    first_line = false;
    std::istringstream words(line);
    std::size_t column = kMargin;
    bool first = true;
    for (std::string word; words >> word;) {
      const auto w = shown_width(word);
      if (!first && column + 1 + w > kWidth) {
        out += "\n" + std::string(kMargin, ' ');
        column = kMargin;
        first = true;
      }
      if (!first) out += " ", ++column;
      out += word;
      column += w;
      first = false;
    }
    out += "\n";
  }
  return out;
}

std::string subject(const Run& run, const Cluster& cluster) {
  std::string out = run.model.name + " on ";
  if (cluster.nodes > 1) out += std::to_string(cluster.nodes) + " nodes of ";
  out += std::to_string(cluster.node.gpus) + " x " + run.gpu.name + ": ";
  switch (run.workload.finetune) {
    case Finetune::Full: out += "full fine-tuning"; break;
    case Finetune::Lora: out += "LoRA of rank " + std::to_string(run.workload.lora_rank); break;
    case Finetune::Qlora: out += "QLoRA of rank " + std::to_string(run.workload.lora_rank); break;
    case Finetune::Freeze: out += "fine-tuning without the first " + std::to_string(run.workload.freeze_layers) + " layers"; break;
  }
  return out + ", " + precision_name(run.ds.precision) + ", " + text_grouped(run.workload.seq_len) + " tokens a sequence";
}

std::string memory_bar(Bytes used, Bytes outside, Bytes capacity, std::size_t width, const Paint& paint) {
  const Bytes whole = std::max(capacity, used + outside);
  const auto a = share(used, whole, width), b = std::min(width - a, share(outside, whole, width));
  const bool fits = used + outside <= capacity;
  const std::string full = repeated("█", a), other = repeated("▒", b);
  return (fits ? paint.good(full) : paint.bad(full)) + paint.dim(other) + repeated("·", width - a - b);
}

std::string component_table(const Peak& peak, const Paint& paint) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < kComponents; ++i) {
    if (peak.by_component[i].count > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return peak.by_component[a] > peak.by_component[b]; });
  std::vector<std::vector<std::string>> rows;
  for (const auto i : order) {
    const Bytes b = peak.by_component[i];
    const bool small = b < MiB(52);
    rows.push_back({readable(kComponentNames[i]), small ? text(b) : gib(b) + " GiB", repeated("█", share(b, peak.allocated, 40))});
  }
  rows.push_back({paint.bold("allocated"), paint.bold(gib(peak.allocated) + " GiB"), ""});
  rows.push_back({"reserved then", gib(peak.reserved_then) + " GiB", "without a limit; at most " + gib(peak.reserved) + " GiB"});
  // Escape sequences would count as width: the bold row is padded by hand.
  for (auto& row : rows) {
    const auto shown = row[0] == paint.bold("allocated") ? std::string("allocated") : row[0];
    row[0] += std::string(shown_width(shown) < 20 ? 20 - shown_width(shown) : 0, ' ');
  }
  std::string out;
  for (const auto& row : rows) {
    const auto shown = row[1] == paint.bold(gib(peak.allocated) + " GiB") ? gib(peak.allocated) + " GiB" : row[1];
    std::string line = std::string(kMargin, ' ') + row[0] + " " + std::string(shown_width(shown) < 10 ? 10 - shown_width(shown) : 0, ' ') + row[1] + "  " + row[2];
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string moment_text(const Moment& m) {
  std::string out;
  if (m.step >= 0) out = "step " + std::to_string(m.step) + (m.micro_step > 0 ? "." + std::to_string(m.micro_step) : "") + ", ";
  return out + name(m.phase) + (m.event.empty() ? "" : ": " + m.event);
}

std::string notes_text(const std::vector<Note>& notes, const Paint& paint) {
  std::string out;
  for (const auto& n : notes) {
    const bool warning = n.level == Note::Level::Warning;
    out += paragraph(out.empty() ? "Notes" : "", (warning ? "Warning: " : "") + n.text + (n.fix.empty() ? "" : " Fix: " + n.fix + "."), paint);
  }
  return out;
}

}  // namespace zplan
