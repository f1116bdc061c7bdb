// SPDX-License-Identifier: Apache-2.0
#include <gyre/task/live_tasks.hpp>

#include <gyre/base/clock.hpp>
#include <gyre/base/detail/printable_text.hpp>
#include <gyre/task/detail/live_task_record.hpp>
#include <gyre/task/detail/recorded_task.hpp>

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <ostream>
#include <sstream>
#include <string_view>
#include <utility>

namespace gyre {
namespace detail {
namespace {

live_task describe(const live_task_entry& entry, steady_time current_time) {
  live_task task{.name = entry.name() != nullptr ? entry.name() : "",
                 .peer = {},
                 .from = entry.location(),
                 .where = entry.task_executor(),
                 .age = std::max(current_time - entry.started(), std::chrono::nanoseconds(0)),
                 .has_begun = entry.has_begun()};
  if (entry.details() != nullptr) entry.details()->describe(task);
  return task;
}

/// Calls `take(task)` for each recorded task, while its part is locked.
void for_each_live_task(auto take) {
  const steady_time current_time = monotonic_now();
  for (live_task_record_part& part : live_task_record()) {
    const std::lock_guard lock(part.mutex);
    for (const live_task_entry& entry : part.entries) take(describe(entry, current_time));
  }
}

void write_place(std::ostream& output, const live_task& task) {
  if (!task.name.empty()) output << '"' << printable_text(task.name) << '"';
  if (task.from.line() == 0) return;
  if (!task.name.empty()) output << ' ';
  output << "from " << task.from.file_name() << ':' << task.from.line();
}

void write_peer(std::ostream& output, const live_task& task) {
  if (!task.peer.empty()) output << ", peer " << printable_text(task.peer);
}

void write_age(std::ostream& output, std::chrono::nanoseconds age) {
  const auto tenths =
      std::chrono::duration_cast<std::chrono::duration<std::int64_t, std::deci>>(age);
  output << tenths.count() / 10 << '.' << tenths.count() % 10 << " s";
}

/// The key of tasks that have one name and were started at one place.
struct place {
  std::string_view file;
  unsigned line;
  unsigned column;
  std::string name;

  friend auto operator<=>(const place&, const place&) = default;
};
struct tasks_of_place {
  live_task oldest;
  std::size_t size = 0;
  std::size_t not_begun = 0;
};

}  // namespace

}  // namespace detail

std::ostream& operator<<(std::ostream& output, const live_task& task) {
  std::ostringstream line;
  detail::write_place(line, task);
  line << ", for ";
  detail::write_age(line, task.age);
  detail::write_peer(line, task);
  if (!task.has_begun) line << ", has not begun";
  return output << line.view();
}

void record_live_tasks(bool is_enabled) noexcept {
  // relaxed: the flag orders no other data.
  detail::live_tasks_are_recorded.store(is_enabled, std::memory_order_relaxed);
}

std::vector<live_task> live_tasks(std::size_t limit) {
  std::multimap<std::chrono::nanoseconds, live_task, std::greater<>> by_age;
  detail::for_each_live_task([&](live_task task) {
    const std::chrono::nanoseconds age = task.age;
    by_age.emplace(age, std::move(task));
    if (by_age.size() > limit) by_age.erase(std::prev(by_age.end()));
  });
  std::vector<live_task> tasks;
  tasks.reserve(by_age.size());
  for (auto& [age, task] : by_age) tasks.push_back(std::move(task));
  return tasks;
}

std::string live_tasks_summary() {
  std::map<detail::place, detail::tasks_of_place> places;
  std::size_t size = 0;
  detail::for_each_live_task([&](live_task task) {
    auto& count = places[{.file = task.from.file_name(),
                          .line = task.from.line(),
                          .column = task.from.column(),
                          .name = task.name}];
    ++size;
    if (!task.has_begun) ++count.not_begun;
    if (count.size++ == 0 || task.age > count.oldest.age) count.oldest = std::move(task);
  });
  std::vector<const detail::tasks_of_place*> places_by_age;
  for (const auto& [where, tasks] : places) places_by_age.push_back(&tasks);
  std::ranges::sort(places_by_age, std::ranges::greater(),
                    [](const auto* tasks) { return tasks->oldest.age; });
  std::ostringstream text;
  text << size << (size == 1 ? " live task\n" : " live tasks\n");
  for (const detail::tasks_of_place* tasks : places_by_age) {
    text << "  " << tasks->size << (tasks->oldest.name.empty() ? " " : " of ");
    detail::write_place(text, tasks->oldest);
    text << (tasks->size == 1 ? ", for " : ", the oldest for ");
    detail::write_age(text, tasks->oldest.age);
    detail::write_peer(text, tasks->oldest);
    if (tasks->not_begun != 0) {
      text << ", " << tasks->not_begun << (tasks->not_begun == 1 ? " has" : " have")
           << " not begun";
    }
    text << '\n';
  }
  return std::move(text).str();
}

}  // namespace gyre
