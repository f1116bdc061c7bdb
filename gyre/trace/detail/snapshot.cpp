// SPDX-License-Identifier: Apache-2.0
#include <gyre/trace/detail/snapshot.hpp>

#include <gyre/base/detail/process_threads.hpp>
#include <gyre/base/detail/read_file.hpp>
#include <gyre/base/detail/ticks.hpp>
#include <gyre/trace/detail/recorder_set.hpp>

#include <algorithm>
#include <utility>

namespace gyre::trace::detail {
namespace {

std::string name_of_process() {
  auto name = gyre::detail::read_file("/proc/self/comm");
  if (!name) return "process";
  if (name->ends_with('\n')) name->pop_back();
  return *std::move(name);
}

}  // namespace

snapshot snapshot::take(duration last) {
  const std::vector<thread_record> records = copy_records();
  const gyre::detail::tick_rate rate = gyre::detail::measured_tick_rate();
  snapshot result{.process = gyre::detail::process_id(),
                  .name = name_of_process(),
                  .time = gyre::detail::monotonic_now(),
                  .threads = {}};
  const bool has_limit = last < result.time.time_since_epoch();
  const steady_time first_time = has_limit ? result.time - last : steady_time{};
  for (const thread_record& record : records) {
    thread_snapshot& thread = result.threads.emplace_back();
    thread.thread = record.thread;
    thread.name = record.name;
    thread.has_ended = record.has_ended;
    if (record.activity) {
      const steady_time begin = rate.to_time(record.activity->begin);
      thread.activity = timed_event{.begin = begin,
                                    .length = std::max(result.time - begin, {}),
                                    .kind = record.activity->kind,
                                    .object = record.activity->object,
                                    .value = 0};
    }
    for (const event& event : record.events) {
      const timed_event copy{.begin = rate.to_time(event.begin),
                             .length = rate.to_duration(event.length),
                             .kind = event.kind,
                             .object = event.object,
                             .value = event.value};
      if (copy.end() >= first_time) thread.events.push_back(copy);
    }
  }
  std::erase_if(result.threads, [](const thread_snapshot& thread) {
    return thread.has_ended && thread.events.empty();
  });
  std::ranges::sort(result.threads, {}, &thread_snapshot::thread);
  return result;
}

}  // namespace gyre::trace::detail
