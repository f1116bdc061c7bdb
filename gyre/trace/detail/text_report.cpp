// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/text_report.hpp>

#include <gyre/base/detail/printable_text.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

namespace gyre::trace::detail {
namespace {

using std::chrono::nanoseconds;

constexpr std::size_t max_lines = 20;  // in a section of the report

/// Events of one kind and object, on one thread if they hold it.
struct finding {
  std::string text;
  std::size_t count = 0;
  nanoseconds longest{0};
  nanoseconds total{0};
  steady_time latest{};

  void add(const timed_event& each) {
    ++count;
    longest = std::max(longest, each.length);
    total += each.length;
    latest = std::max(latest, each.end());
  }
};

std::string describe_thread(const thread_snapshot& thread) {
  return "thread '" + gyre::detail::printable_text(thread.name) + "' (" +
         std::to_string(thread.thread) + ")";
}

std::string describe_function(std::uint64_t address, function_names& names) {
  const code_place& place = names.find(address);
  if (!place.function.empty()) return place.function;
  std::array<char, 32> offset{};
  std::snprintf(offset.data(), offset.size(), "0x%llx",
                static_cast<unsigned long long>(place.image.empty() ? address : place.offset));
  return place.image.empty() ? offset.data() : place.image + "+" + offset.data();
}

// Whether most of `outer` is one of the events that begin within it, which then says more.
bool is_explained(const timed_event& outer, std::span<const timed_event> later_events) noexcept {
  for (const timed_event& each : later_events) {
    if (each.begin > outer.end()) return false;
    const bool is_inside =
        info_of(each.kind).holds_thread && each.end() <= outer.end() && each.length < outer.length;
    if (is_inside && each.length >= outer.length / 5 * 4) return true;
  }
  return false;
}

void append_findings(std::string& text, std::vector<finding> findings, steady_time now,
                     const char* title) {
  if (findings.empty()) return;
  std::ranges::sort(findings, std::ranges::greater(), &finding::longest);
  text.append(title).append("\n");
  const std::size_t shown = std::min(findings.size(), max_lines);
  for (const finding& each : std::span(findings).first(shown)) {
    text.append("  ").append(each.text).append(" (");
    if (each.count > 1) {
      text.append(std::to_string(each.count)).append(" times, ");
      text.append(describe_duration(each.total)).append(" in total, the latest ");
    }
    text.append(describe_duration(std::max(now - each.latest, nanoseconds{0}))).append(" ago)\n");
  }
  if (shown < findings.size()) {
    text.append("  and ").append(std::to_string(findings.size() - shown)).append(" more\n");
  }
}

class report {
 public:
  report(const snapshot& records, duration slow, function_names& names) noexcept
      : records_(records), slow_(slow), names_(names) {}

  std::string write() {
    std::size_t events = 0;
    for (const thread_snapshot& thread : records_.threads) {
      events += thread.events.size();
      look_at(thread);
    }
    std::string text = "gyre: trace of process '" + gyre::detail::printable_text(records_.name) +
                       "' (" + std::to_string(records_.process) + "), " +
                       std::to_string(records_.threads.size()) + " threads, " +
                       std::to_string(events) + " events\n";
    const std::size_t head_size = text.size();
    append_pauses(text);
    append_held_now(text);
    append_running_spans(text);
    append_findings(text, take(held_, " was held "), records_.time, "Held threads:");
    append_findings(text, take(waits_, ": "), records_.time, "Waits:");
    if (text.size() == head_size) {
      text += "Nothing took " + describe_duration(slow_) + " or longer.\n";
    }
    return text;
  }

 private:
  // The key is the thread, zero for events that hold none.
  using groups = std::map<std::tuple<::pid_t, event_kind, std::uint64_t>, finding>;

  void look_at(const thread_snapshot& thread) {
    const std::span<const timed_event> events(thread.events);
    for (std::size_t index = 0; index < events.size(); ++index) {
      const timed_event& each = events[index];
      const bool is_idle = each.kind == event_kind::sleep || each.kind == event_kind::pool_sleep;
      if (each.length < slow_ || is_idle) continue;
      if (each.kind == event_kind::pause) {
        pauses_.push_back(each);
      } else if (!info_of(each.kind).holds_thread) {
        waits_[{0, each.kind, each.object}].add(each);
      } else if (!is_explained(each, events.subspan(index + 1))) {
        finding& group = held_[{thread.thread, each.kind, each.object}];
        if (group.count == 0) group.text = describe_thread(thread);
        group.add(each);
      }
    }
  }

  void append_pauses(std::string& text) const {
    for (const timed_event& each : pauses_) {
      text += "The process did not run for " + describe_duration(each.length) + ", " +
              describe_duration(std::max(records_.time - each.end(), nanoseconds{0})) +
              " ago: it was stopped by a signal or a debugger, or got no processor.\n";
    }
  }

  void append_held_now(std::string& text) {
    bool has_title = false;
    for (const thread_snapshot& thread : records_.threads) {
      if (!thread.activity || thread.activity->length < slow_) continue;
      if (!has_title) text += "Held now:\n";
      has_title = true;
      text += "  " + describe_thread(thread) + " has been held for " +
              describe_duration(thread.activity->length) + " by " +
              print_activity(thread.activity->kind, thread.activity->object) + "\n";
    }
  }

  void append_running_spans(std::string& text) {
    std::unordered_set<std::uint64_t> ended;
    for (const thread_snapshot& thread : records_.threads) {
      for (const timed_event& each : thread.events) {
        if (each.kind == event_kind::span) ended.insert(each.value);
      }
    }
    groups running;
    for (const thread_snapshot& thread : records_.threads) {
      for (timed_event each : thread.events) {
        if (each.kind != event_kind::span_begin || ended.contains(each.value)) continue;
        each.length = records_.time - each.begin;
        if (each.length >= slow_) running[{0, each.kind, each.object}].add(each);
      }
    }
    std::vector<finding> findings = take(running, ": begun ");
    for (finding& each : findings) each.text += " before";
    append_findings(text, std::move(findings), records_.time, "Running spans:");
  }

  [[nodiscard]] std::string print_activity(event_kind kind, std::uint64_t object) const {
    return gyre::detail::printable_text(describe_activity(kind, object, names_));
  }

  // Completes the texts of the findings.
  std::vector<finding> take(groups& groups_by_activity, const char* verb) {
    std::vector<finding> findings;
    for (auto& [key, each] : groups_by_activity) {
      const auto& [thread, kind, object] = key;
      const std::string activity = print_activity(kind, object);
      if (thread != 0) {
        each.text += verb + describe_duration(each.longest) + " by " + activity;
      } else {
        each.text = activity + verb + describe_duration(each.longest);
      }
      findings.push_back(each);
    }
    return findings;
  }

  const snapshot& records_;
  const duration slow_;
  function_names& names_;
  std::vector<timed_event> pauses_;
  groups held_;
  groups waits_;
};

}  // namespace

std::string describe_duration(nanoseconds length) {
  struct unit {
    double nanoseconds;
    const char* name;
  };
  constexpr std::array<unit, 4> units = {{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};
  const auto value = static_cast<double>(length.count());
  const auto* const fitting =
      std::ranges::find_if(units, [&](const unit& each) { return value >= each.nanoseconds; });
  const unit& chosen = fitting == units.end() ? units.back() : *fitting;
  const double scaled = value / chosen.nanoseconds;
  std::array<char, 48> text{};
  const int decimals = scaled < 10 ? 2 : scaled < 100 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f %s", chosen.nanoseconds > 1 ? decimals : 0, scaled,
                chosen.name);
  return text.data();
}

std::string describe_activity(event_kind kind, std::uint64_t object, function_names& names) {
  switch (kind) {
    case event_kind::batch: return "a batch of short tasks";
    case event_kind::io: return "callbacks of ready descriptors";
    case event_kind::timers: return "short timers";
    case event_kind::heavy: return "TLS handshakes or other heavy operations";
    case event_kind::blocked_submit: return "a submission that waits for a full pool";
    default: break;
  }
  const event_kind_info& info = info_of(kind);
  std::string text(info.name);
  switch (info.object) {
    case object_kind::nothing: break;
    case object_kind::label: text.append(" ").append(reinterpret_cast<const char*>(object)); break;
    case object_kind::function: text.append(" ").append(describe_function(object, names)); break;
  }
  return text;
}

std::string report_as_text(const snapshot& records, duration slow, function_names& names) {
  return report(records, slow, names).write();
}

}  // namespace gyre::trace::detail
