// SPDX-License-Identifier: Apache-2.0
// Guide, part 6: tasks that are started now and joined later; a class that owns its tasks.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/join_set.hpp>
#include <gyre/task/async_scope.hpp>
#include <gyre/task/executor.hpp>
#include <gyre/task/join_handle.hpp>
#include <gyre/task/scope.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>

#include <chrono>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

class thermometer {
 public:
  explicit thermometer(gyre::executor& where) : tasks_(where) { tasks_.spawn(measure()); }

  gyre::task<> stop() {
    tasks_.request_stop();
    co_await tasks_.join();
  }
  int measurements() const { return measurements_; }

 private:
  gyre::task<> measure() {
    for (;;) {
      ++measurements_;
      co_await gyre::sleep_for(1ms);
    }
  }

  int measurements_ = 0;
  gyre::async_scope tasks_;
};

gyre::task<std::string> look_up(std::string name) {
  co_await gyre::sleep_for(name == "far" ? 1s : 1ms);
  co_return "<" + name + ">";
}

gyre::task<std::string> look_up_both(gyre::executor& workers) {
  gyre::join_handle<std::string> far = gyre::spawn_joinable(workers, look_up("far"));
  std::string near = co_await look_up("near");
  std::string far_one = co_await far.join();
  co_return near + far_one;
}

gyre::task<> look_up_all(std::vector<std::string> names) {
  auto body = [&](gyre::scope& scope) -> gyre::task<> {
    gyre::join_set<std::string> lookups(scope);
    for (std::string& name : names) lookups.spawn(look_up(std::move(name)));
    while (auto found = co_await lookups.next()) std::cout << *found << '\n';
  };
  co_await gyre::with_scope(body);
}

int main() {
  gyre::loop loop;
  thermometer outside(loop);
  const std::string both = gyre::sync_wait(loop, look_up_both(loop));
  std::cout << both << '\n';
  gyre::sync_wait(loop, look_up_all({"far", "near"}));
  gyre::sync_wait(loop, outside.stop());
  std::cout << (outside.measurements() > 0) << '\n';
}
