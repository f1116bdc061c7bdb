// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of task's headers, except those about running coroutines together.
#include <gyre/gyre.hpp>
#include <gyre/testing/manual_executor.hpp>
#include <gyre/testing/run_in_virtual_time.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <expected>
#include <functional>
#include <future>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace task_test {
namespace {

using namespace std::chrono_literals;

// Captures the output to `stream` during its lifetime.
class captured {
 public:
  explicit captured(std::ostream& stream) : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  captured(const captured&) = delete;
  captured& operator=(const captured&) = delete;
  ~captured() { stream_.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

// gyre/task/as_expected.hpp
gyre::task<bool> sleep_a_second() {
  std::expected<void, std::error_code> slept = co_await gyre::as_expected(gyre::sleep_for(1s));
  co_return slept.has_value();
}

TEST(TaskExamples, AsExpectedTellsWhetherItSlept) {
  gyre::testing::manual_executor executor;
  EXPECT_TRUE(run_in_virtual_time(executor, sleep_a_second()));
}

// gyre/task/as_result.hpp
namespace result_of_asking {
struct reply {
  int code;
};
struct peer {};
gyre::task<reply> ask(peer) { co_return reply{.code = 7}; }

gyre::task<int> code_of_reply(peer server) {
  std::expected<reply, std::exception_ptr> got = co_await gyre::as_result(ask(server));
  co_return got ? got->code : 0;
}
}  // namespace result_of_asking

TEST(TaskExamples, AsResultGivesTheReply) {
  EXPECT_EQ(gyre::sync_wait(result_of_asking::code_of_reply({})), 7);
}

// gyre/task/async_backtrace.hpp
gyre::task<> print_backtrace() {
  std::cerr << co_await gyre::current_backtrace();
  std::cerr.flush();
}

TEST(TaskExamples, BacktraceIsPrinted) {
  const captured errors(std::cerr);
  gyre::sync_wait(print_backtrace());
  EXPECT_EQ(errors.text().empty(), !gyre::async_backtrace_is_on);
}

// gyre/task/live_tasks.hpp
namespace live {
gyre::task<> serve(std::string) { co_return; }
}  // namespace live

TEST(TaskExamples, LiveTasksAreSummarised) {
  using live::serve;
  const captured errors(std::cerr);
  gyre::loop loop;
  std::string connection;
  gyre::record_live_tasks(true);  // first of all in main()
  gyre::spawn(loop, serve(std::move(connection)), {.name = "session"});
  std::cerr << gyre::live_tasks_summary();  // when someone asks
  EXPECT_TRUE(errors.text().starts_with("1 live task\n  1 of \"session\" from "));
  gyre::record_live_tasks(false);
  loop.poll();
}

// gyre/task/async_generator.hpp
using line = std::string;
using tcp_stream = gyre::channel<line>;
gyre::async_generator<line> lines(tcp_stream& from);

gyre::async_generator<line> lines(tcp_stream& from) {
  while (auto received = co_await from.receive()) co_yield std::move(*received);
}

gyre::task<> handle_lines(tcp_stream& stream, std::string& handled) {
  const auto handle = [&](const line& each) { handled += each; };
  auto incoming = lines(stream);
  while (line* next = co_await incoming.next()) handle(*next);
}

TEST(TaskExamples, AsyncGeneratorWaitsBetweenItsValues) {
  tcp_stream stream(2);
  ASSERT_EQ(stream.try_send("one"), gyre::channel_status::ok);
  ASSERT_EQ(stream.try_send("two"), gyre::channel_status::ok);
  stream.close();
  std::string handled;
  gyre::sync_wait(handle_lines(stream, handled));
  EXPECT_EQ(handled, "onetwo");
}

// gyre/task/executor.hpp
namespace toolkit {
std::deque<std::pair<void (*)(void*), void*>> calls;
void call_later(void (*function)(void*), void* argument) { calls.emplace_back(function, argument); }
bool is_ui_thread() { return true; }
void run() {
  for (; !calls.empty(); calls.pop_front()) calls.front().first(calls.front().second);
}
}  // namespace toolkit

struct ui_thread final : gyre::executor {
  void post(gyre::operation& op) noexcept override { toolkit::call_later(&run, &op); }
  bool running_here() const noexcept override { return toolkit::is_ui_thread(); }
  static void run(void* op) { static_cast<gyre::operation*>(op)->execute(); }
};

gyre::task<> set_after_yield(bool& done) {
  co_await gyre::yield();
  done = true;
}

TEST(TaskExamples, ExecutorOfAToolkitRunsCoroutines) {
  ui_thread ui;
  bool done = false;
  gyre::spawn(ui, set_after_yield(done));
  EXPECT_FALSE(done);
  toolkit::run();
  EXPECT_TRUE(done);
}

// gyre/task/finally.hpp
struct connection {
  std::string calls;
  gyre::task<> begin() {
    calls += "begin ";
    co_return;
  }
  gyre::task<> end() {
    co_await gyre::yield();
    calls += "end";
  }
};

gyre::task<> move_money(connection& database) {
  database.calls += "move ";
  co_await gyre::yield();
  throw std::runtime_error("no money");
}

gyre::task<> transfer(connection& database) {
  co_await database.begin();
  co_await gyre::finally(move_money(database), [&] { return database.end(); });
}

TEST(TaskExamples, FinallyEndsWhatFailed) {
  connection database;
  EXPECT_THROW(gyre::sync_wait(transfer(database)), std::runtime_error);
  EXPECT_EQ(database.calls, "begin move end");
}

// gyre/task/from_callback.hpp
struct device {
  std::function<void(int error, int bytes)> reported;
  void read(std::span<std::byte>, std::function<void(int, int)> report) {
    reported = std::move(report);
  }
  void cancel() { std::exchange(reported, {})(ECANCELED, 0); }
};

gyre::task<int> read_async(device& from, std::span<std::byte> to) {
  auto start = [&](gyre::completion<int> done) {
    from.read(to, [done](int error, int bytes) {
      error == 0 ? done.set_value(bytes) : done.set_error({error, std::system_category()});
    });
  };
  auto reading = gyre::from_callback<int>(start, [&] { from.cancel(); });  // at a stop
  co_return co_await std::move(reading);
}

gyre::task<> report(device& of, int error, int bytes) {
  std::exchange(of.reported, {})(error, bytes);
  co_return;
}

TEST(TaskExamples, FromCallbackGivesWhatIsReported) {
  device from;
  std::vector<std::byte> room(8);
  auto [read, nothing] =
      gyre::sync_wait(gyre::when_all(read_async(from, room), report(from, 0, 8)));
  EXPECT_EQ(read, 8);
  EXPECT_THROW(gyre::sync_wait(gyre::when_all(read_async(from, room), report(from, EIO, 0))),
               std::system_error);
}

TEST(TaskExamples, FromCallbackCancelsAtAStop) {
  device from;
  std::vector<std::byte> room(8);
  const auto first = gyre::sync_wait(gyre::when_any(read_async(from, room), gyre::yield()));
  EXPECT_EQ(first.index, 1);
  EXPECT_EQ(from.reported, nullptr);
}

// gyre/task/from_future.hpp
gyre::task<std::string> await_future(std::future<std::string> future,
                                     gyre::thread_pool& blocking_pool) {
  auto answer = co_await gyre::from_future(std::move(future), blocking_pool);
  co_return answer;
}

TEST(TaskExamples, FromFutureGivesItsValue) {
  gyre::thread_pool blocking_pool(1);
  std::promise<std::string> promise;
  auto waiting =
      gyre::spawn_future(blocking_pool, await_future(promise.get_future(), blocking_pool));
  promise.set_value("the answer");
  EXPECT_EQ(waiting.get(), "the answer");
}

// gyre/task/generator.hpp
struct node {
  int value;
  const node* left = nullptr;
  const node* right = nullptr;
};

gyre::generator<int> in_order(const node* tree) {
  if (tree == nullptr) co_return;
  co_yield gyre::elements_of(in_order(tree->left));
  co_yield tree->value;
  co_yield gyre::elements_of(in_order(tree->right));
}

TEST(TaskExamples, GeneratorWalksATree) {
  const node one{.value = 1};
  const node three{.value = 3};
  const node two{.value = 2, .left = &one, .right = &three};
  const node* const root = &two;
  std::vector<int> used;
  const auto use = [&](int value) { used.push_back(value); };
  for (int value : in_order(root)) use(value);
  EXPECT_EQ(used, (std::vector<int>{1, 2, 3}));
}

// gyre/task/interval.hpp
gyre::task<> publish_measurements(std::vector<gyre::steady_time>& published) {
  const auto measure = [] { return 42; };
  const auto publish = [&](int, gyre::steady_time due) { published.push_back(due); };
  gyre::interval every(1s);
  for (;;) {
    const gyre::steady_time due = co_await every.tick();
    publish(measure(), due);
  }
}

TEST(TaskExamples, IntervalTicksOncePerSecond) {
  gyre::testing::manual_executor executor;
  const gyre::steady_time start = executor.now();
  std::vector<gyre::steady_time> published;
  gyre::inplace_stop_source source;
  gyre::spawn(executor, publish_measurements(published), {.stop = source.get_token()});
  executor.advance(2s + 1ms);
  source.request_stop();
  executor.run_all();
  EXPECT_EQ(published, (std::vector{start, start + 1s, start + 2s}));
}

// gyre/task/invoke.hpp
std::string greeted;
void greet(const std::string& name) { greeted = name; }

gyre::task<> greet_later(std::string name) {
  auto work = gyre::invoke([name = std::move(name)]() -> gyre::task<> {
    co_await gyre::yield();
    greet(name);
  });
  co_await std::move(work);
}

TEST(TaskExamples, InvokeKeepsCaptures) {
  greeted.clear();
  const std::string name = "longer than a string holds in place";
  gyre::sync_wait(greet_later(name));
  EXPECT_EQ(greeted, name);
}

// gyre/task/task_local.hpp
struct request {
  std::string id;
};
const gyre::task_local<std::string> request_id;

gyre::task<> log(std::string_view text);
gyre::task<> answer(request asked) { co_await log("answered " + asked.id); }

gyre::task<> serve(request r) { co_await request_id.with(r.id, answer(r)); }

gyre::task<> log(std::string_view text) {  // anywhere below answer()
  const std::string& id = co_await request_id.get();
  std::clog << id << ' ' << text << '\n';
}

TEST(TaskExamples, TaskLocalIsReadBelow) {
  const captured logged(std::clog);
  gyre::sync_wait(serve({.id = "17"}));
  EXPECT_EQ(logged.text(), "17 answered 17\n");
}

// gyre/task/task.hpp
gyre::task<int> twice(gyre::task<int> number) { co_return 2 * co_await std::move(number); }

gyre::task<int> three() { co_return 3; }

TEST(TaskExamples, TaskAwaitsATask) { EXPECT_EQ(gyre::sync_wait(twice(three())), 6); }

// gyre/task/sync_wait.hpp
gyre::task<int> compute() { co_return 42; }

TEST(TaskExamples, SyncWaitGivesTheResult) {
  int answer = gyre::sync_wait(compute());
  EXPECT_EQ(answer, 42);
}

// gyre/task/sleep.hpp
gyre::task<gyre::steady_time> sleep_and_tell(gyre::testing::manual_executor& executor) {
  co_await gyre::sleep_for(250ms);
  co_return executor.now();
}

TEST(TaskExamples, SleepLetsTimePass) {
  gyre::testing::manual_executor executor;
  const gyre::steady_time begin = executor.now();
  EXPECT_GE(run_in_virtual_time(executor, sleep_and_tell(executor)) - begin, 250ms);
}

}  // namespace
}  // namespace task_test
