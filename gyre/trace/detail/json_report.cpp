// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/json_report.hpp>

#include <gyre/base/detail/json_text.hpp>
#include <gyre/trace/detail/text_report.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace gyre::trace::detail {
namespace {

using std::chrono::nanoseconds;

std::string quote(std::string_view text) {
  std::string result;
  gyre::detail::append_json_string(result, text);
  return result;
}

/// Returns nanoseconds as microseconds with three decimals.
std::string microseconds(nanoseconds length) {
  std::array<char, 40> text{};
  const long long count = std::max(length, nanoseconds{0}).count();
  std::snprintf(text.data(), text.size(), "%lld.%03lld", count / 1000, count % 1000);
  return text.data();
}

std::string hexadecimal(std::uint64_t number) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(number));
  return text.data();
}

class json_writer {
 public:
  json_writer(const snapshot& records, function_names& names) : records_(records), names_(names) {
    for (const thread_snapshot& thread : records.threads) {
      for (const timed_event& event : thread.events) {
        if (event.kind == event_kind::sleep) sleeps_[event.object].push_back(&event);
        if (event.kind == event_kind::span) ended_spans_.insert(event.value);
      }
    }
  }

  std::string write() {
    text_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    add_metadata("process_name", 0, records_.name);
    for (const thread_snapshot& thread : records_.threads) {
      add_metadata("thread_name", thread.thread, thread.name);
      for (const timed_event& event : thread.events) add(thread, event);
      if (thread.activity) add(thread, *thread.activity, ",\"running\":true");
    }
    text_ +=
        "\n],\"otherData\":{\"producer\":\"gyre\",\"pid\":" + std::to_string(records_.process) +
        ",\"clock\":\"CLOCK_MONOTONIC\",\"taken_us\":" +
        microseconds(records_.time.time_since_epoch()) + "}}\n";
    return std::move(text_);
  }

 private:
  void begin_event() {
    if (has_events_) text_ += ",\n";
    has_events_ = true;
  }

  void add_metadata(std::string_view name, ::pid_t thread, std::string_view value) {
    begin_event();
    text_.append("{\"ph\":\"M\",\"name\":").append(quote(name)).append(",\"pid\":");
    text_ += std::to_string(records_.process) + ",\"tid\":" + std::to_string(thread) +
             ",\"args\":{\"name\":" + quote(value) + "}}";
  }

  void add_head(char phase, std::string_view name, std::string_view category, ::pid_t thread,
                steady_time time) {
    begin_event();
    text_.append("{\"ph\":\"").append(1, phase).append("\",\"name\":").append(quote(name));
    text_.append(",\"cat\":\"").append(category).append("\",\"pid\":");
    text_ += std::to_string(records_.process) + ",\"tid\":" + std::to_string(thread) +
             ",\"ts\":" + microseconds(time.time_since_epoch());
  }

  void add(const thread_snapshot& thread, const timed_event& event,
           const char* extra_arguments = "") {
    const event_kind_info& info = info_of(event.kind);
    const std::string name = info.object == object_kind::nothing
                                 ? std::string(info.name)
                                 : describe_activity(event.kind, event.object, names_);
    const bool is_on_thread = info.holds_thread || event.kind == event_kind::sleep ||
                              event.kind == event_kind::pool_sleep || event.length.count() == 0;
    if (event.kind == event_kind::span_begin) {
      if (ended_spans_.contains(event.value)) return;
      add_head('b', name, info.category, thread.thread, event.begin);
      text_ += ",\"id\":\"" + hexadecimal(++last_id_) + "\"";
      add_arguments(info, event, ",\"running\":true");
    } else if (is_on_thread) {
      add_head('X', name, info.category, thread.thread, event.begin);
      text_ += ",\"dur\":" + microseconds(std::max(event.length, nanoseconds{1}));
      add_arguments(info, event, extra_arguments);
    } else {
      // The identifier is that of no other event, because these events overlap.
      const std::string id = ",\"id\":\"" + hexadecimal(++last_id_) + "\"";
      add_head('b', name, info.category, thread.thread, event.begin);
      text_ += id;
      add_arguments(info, event, extra_arguments);
      add_head('e', name, info.category, thread.thread, event.end());
      text_ += id + "}";
    }
    if (event.kind == event_kind::wake) add_arrow(thread, event);
  }

  void add_arguments(const event_kind_info& info, const timed_event& event,
                     const char* extra_arguments) {
    text_ += ",\"args\":{\"kind\":" + quote(info.name);
    if (info.object == object_kind::function) {
      const code_place& place = names_.find(event.object);
      if (!place.image.empty()) {
        text_ += ",\"image\":" + quote(place.image) + ",\"offset\":\"" + hexadecimal(place.offset) +
                 "\"";
      }
    }
    if (!info.value_name.empty()) {
      text_.append(",").append(quote(info.value_name)).append(":");
      text_ += std::to_string(event.value);
    }
    text_.append(extra_arguments).append("}}");
  }

  // Draws an arrow from a wake-up to the end of the sleep that it ended.
  void add_arrow(const thread_snapshot& thread, const timed_event& wake) {
    const auto match = sleeps_.find(wake.object);
    if (match == sleeps_.end()) return;
    const auto& sleeps = match->second;
    const auto sleep = std::ranges::lower_bound(
        sleeps, wake.begin, {}, [](const timed_event* event) { return event->end(); });
    if (sleep == sleeps.end() || (*sleep)->begin > wake.begin) return;
    const ::pid_t woken_thread = thread_of(**sleep);
    if (woken_thread == 0) return;
    const std::string id = ",\"id\":\"" + hexadecimal(++last_id_) + "\"}";
    add_head('s', "wake", "flow", thread.thread, wake.begin);
    text_ += id;
    add_head('f', "wake", "flow", woken_thread, (*sleep)->end() - nanoseconds{1});
    text_.append(",\"bp\":\"e\"").append(id);
  }

  [[nodiscard]] ::pid_t thread_of(const timed_event& sleep) const noexcept {
    for (const thread_snapshot& thread : records_.threads) {
      const timed_event* const begin = thread.events.data();
      if (!std::less()(&sleep, begin) && std::less()(&sleep, begin + thread.events.size())) {
        return thread.thread;
      }
    }
    return 0;
  }

  const snapshot& records_;
  function_names& names_;
  std::string text_;
  bool has_events_ = false;
  std::uint64_t last_id_ = 0;
  // The sleeps of each loop.
  std::unordered_map<std::uint64_t, std::vector<const timed_event*>> sleeps_;
  std::unordered_set<std::uint64_t> ended_spans_;
};

}  // namespace

std::string report_as_json(const snapshot& records, function_names& names) {
  return json_writer(records, names).write();
}

}  // namespace gyre::trace::detail
