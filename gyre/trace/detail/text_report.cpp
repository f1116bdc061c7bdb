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

constexpr std::size_t max_lines = 20;  // the limit of one section of the report

/// Events of one kind and object, on one thread if they hold it.
struct finding {
  std::string text;
  std::size_t count = 0;
  nanoseconds max_length{0};
  nanoseconds total{0};
  steady_time last_time{};

  void add(const timed_event& event) {
    ++count;
    max_length = std::max(max_length, event.length);
    total += event.length;
    last_time = std::max(last_time, event.end());
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
bool is_explained(const timed_event& outer_event,
                  std::span<const timed_event> later_events) noexcept {
  for (const timed_event& later_event : later_events) {
    if (later_event.begin > outer_event.end()) return false;
    const bool is_inside = info_of(later_event.kind).holds_thread &&
                           later_event.end() <= outer_event.end() &&
                           later_event.length < outer_event.length;
    if (is_inside && later_event.length >= outer_event.length / 5 * 4) return true;
  }
  return false;
}

void append_findings(std::string& text, std::vector<finding> findings, steady_time now,
                     const char* title) {
  if (findings.empty()) return;
  std::ranges::sort(findings, std::ranges::greater(), &finding::max_length);
  text.append(title).append("\n");
  const std::size_t line_count = std::min(findings.size(), max_lines);
  for (const finding& finding : std::span(findings).first(line_count)) {
    text.append("  ").append(finding.text).append(" (");
    if (finding.count > 1) {
      text.append(std::to_string(finding.count)).append(" times, ");
      text.append(describe_duration(finding.total)).append(" in total, the latest ");
    }
    text.append(describe_duration(std::max(now - finding.last_time, nanoseconds{0})))
        .append(" ago)\n");
  }
  if (line_count < findings.size()) {
    text.append("  and ").append(std::to_string(findings.size() - line_count)).append(" more\n");
  }
}

class report {
 public:
  report(const snapshot& records, duration min_length, function_names& names) noexcept
      : records_(records), min_length_(min_length), names_(names) {}

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
    append_findings(text, take(held_groups_, " was held "), records_.time, "Held threads:");
    append_findings(text, take(waits_, ": "), records_.time, "Waits:");
    if (text.size() == head_size) {
      text += "Nothing took " + describe_duration(min_length_) + " or longer.\n";
    }
    return text;
  }

 private:
  // The key includes the thread, which is zero for events that hold no thread.
  using groups = std::map<std::tuple<::pid_t, event_kind, std::uint64_t>, finding>;

  void look_at(const thread_snapshot& thread) {
    const std::span<const timed_event> events(thread.events);
    for (std::size_t index = 0; index < events.size(); ++index) {
      const timed_event& event = events[index];
      const bool is_idle = event.kind == event_kind::sleep || event.kind == event_kind::pool_sleep;
      if (event.length < min_length_ || is_idle) continue;
      if (event.kind == event_kind::pause) {
        pauses_.push_back(event);
      } else if (!info_of(event.kind).holds_thread) {
        waits_[{0, event.kind, event.object}].add(event);
      } else if (!is_explained(event, events.subspan(index + 1))) {
        finding& group = held_groups_[{thread.thread, event.kind, event.object}];
        if (group.count == 0) group.text = describe_thread(thread);
        group.add(event);
      }
    }
  }

  void append_pauses(std::string& text) const {
    for (const timed_event& pause : pauses_) {
      text += "The process did not run for " + describe_duration(pause.length) + ", " +
              describe_duration(std::max(records_.time - pause.end(), nanoseconds{0})) +
              " ago: it was stopped by a signal or a debugger, or got no processor.\n";
    }
  }

  void append_held_now(std::string& text) {
    bool has_title = false;
    for (const thread_snapshot& thread : records_.threads) {
      if (!thread.activity || thread.activity->length < min_length_) continue;
      if (!has_title) text += "Held now:\n";
      has_title = true;
      text += "  " + describe_thread(thread) + " has been held for " +
              describe_duration(thread.activity->length) + " by " +
              print_activity(thread.activity->kind, thread.activity->object) + "\n";
    }
  }

  void append_running_spans(std::string& text) {
    std::unordered_set<std::uint64_t> ended_tasks;
    for (const thread_snapshot& thread : records_.threads) {
      for (const timed_event& event : thread.events) {
        if (event.kind == event_kind::span) ended_tasks.insert(event.value);
      }
    }
    groups running_groups;
    for (const thread_snapshot& thread : records_.threads) {
      for (timed_event event : thread.events) {
        if (event.kind != event_kind::span_begin || ended_tasks.contains(event.value)) continue;
        event.length = records_.time - event.begin;
        if (event.length >= min_length_) running_groups[{0, event.kind, event.object}].add(event);
      }
    }
    std::vector<finding> findings = take(running_groups, ": begun ");
    for (finding& finding : findings) finding.text += " before";
    append_findings(text, std::move(findings), records_.time, "Running spans:");
  }

  [[nodiscard]] std::string print_activity(event_kind kind, std::uint64_t object) const {
    return gyre::detail::printable_text(describe_activity(kind, object, names_));
  }

  // Completes the texts of the findings.
  std::vector<finding> take(groups& groups_by_activity, const char* verb) {
    std::vector<finding> findings;
    for (auto& [key, group] : groups_by_activity) {
      const auto& [thread, kind, object] = key;
      const std::string activity = print_activity(kind, object);
      if (thread != 0) {
        group.text += verb + describe_duration(group.max_length) + " by " + activity;
      } else {
        group.text = activity + verb + describe_duration(group.max_length);
      }
      findings.push_back(group);
    }
    return findings;
  }

  const snapshot& records_;
  const duration min_length_;
  function_names& names_;
  std::vector<timed_event> pauses_;
  groups held_groups_;
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
  const auto* const match = std::ranges::find_if(
      units, [&](const unit& candidate) { return value >= candidate.nanoseconds; });
  const unit& best_unit = match == units.end() ? units.back() : *match;
  const double scaled_value = value / best_unit.nanoseconds;
  std::array<char, 48> text{};
  const int decimals = scaled_value < 10 ? 2 : scaled_value < 100 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f %s", best_unit.nanoseconds > 1 ? decimals : 0,
                scaled_value, best_unit.name);
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

std::string report_as_text(const snapshot& records, duration min_length, function_names& names) {
  return report(records, min_length, names).write();
}

}  // namespace gyre::trace::detail
