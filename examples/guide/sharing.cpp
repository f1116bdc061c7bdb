// SPDX-License-Identifier: Apache-2.0
// Guide, part 6: state that several coroutines share.
#include <gyre/exec/loop.hpp>
#include <gyre/exec/loop_thread.hpp>
#include <gyre/exec/sync_wait.hpp>
#include <gyre/sync/async_cache.hpp>
#include <gyre/sync/mutex.hpp>
#include <gyre/task/schedule.hpp>
#include <gyre/task/shared_task.hpp>
#include <gyre/task/sleep.hpp>
#include <gyre/task/task.hpp>
#include <gyre/task/when_all.hpp>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

using namespace std::chrono_literals;

gyre::task<> count_on_one_loop(int& counter) {
  for (int i = 0; i < 1000; ++i) {
    ++counter;
    co_await gyre::yield();
  }
}

struct account {
  gyre::mutex mutex;
  int balance = 0;
};

gyre::task<> deposit(account& to, int times) {
  for (int i = 0; i < times; ++i) {
    auto guard = co_await to.mutex.lock();
    const int before = to.balance;
    co_await gyre::yield();
    to.balance = before + 1;
  }
}

gyre::task<std::string> load(std::string name) {
  co_await gyre::sleep_for(1ms);
  std::cout << "loaded " << name << '\n';
  co_return "<" + name + ">";
}

class page_cache {
 public:
  gyre::task<std::string> get(std::string name) {
    for (;;) {
      const gyre::shared_task<std::string> page = find_or_load(name);
      try {
        co_return co_await page;
      } catch (const std::system_error& error) {
        if (error.code() != std::errc::owner_dead) throw;
      }
    }
  }

 private:
  gyre::shared_task<std::string> find_or_load(const std::string& name) {
    gyre::shared_task<std::string>& known = pages_[name];
    if (!known.valid() || known.is_abandoned()) known = load(name);
    return known;
  }

  std::map<std::string, gyre::shared_task<std::string>> pages_;
};

gyre::task<> read_news(gyre::loop& loop, gyre::executor& other_loop) {
  gyre::async_cache<std::string, std::string> pages(
      {.capacity = 1000, .time_to_live = 5min, .clock = loop.timers()});
  auto [one, other] = co_await gyre::when_all(pages.get("news", load),
                                              gyre::on(other_loop, pages.get("news", load)));
  std::cout << *one << *other << '\n';
}

gyre::task<> all_of_it(gyre::loop& loop, gyre::executor& other_loop) {
  int counter = 0;
  co_await gyre::when_all(count_on_one_loop(counter), count_on_one_loop(counter));
  std::cout << counter << '\n';

  account shared;
  co_await gyre::when_all(deposit(shared, 1000), gyre::on(other_loop, deposit(shared, 1000)));
  std::cout << shared.balance << '\n';

  page_cache cache;
  auto [one, other] = co_await gyre::when_all(cache.get("index"), cache.get("index"));
  std::cout << one << other << '\n';

  co_await read_news(loop, other_loop);
}

int main() {
  gyre::loop_thread other;
  gyre::loop loop;
  gyre::sync_wait(loop, all_of_it(loop, other.loop()));
}
