// SPDX-License-Identifier: Apache-2.0
// The examples in the comments of io's headers.
#include <gyre/gyre.hpp>
#include <tests/header_examples/support.hpp>
#include <tests/support/socket_pairs.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace io_test {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// gyre/io/buffer.hpp
std::size_t read_into(std::span<std::byte> room) {
  room.front() = std::byte{'!'};
  return 1;
}

TEST(IoExamples, BufferHasRoomInFrontAndBehind) {
  gyre::io::buffer message;
  message.append("hello");
  message.prepend(static_cast<std::uint32_t>(message.size()));  // moves nothing

  const std::span<std::byte> room = message.prepare(4096);
  message.commit(read_into(room));
  EXPECT_EQ(message.read<std::uint32_t>(), 5U);
  EXPECT_EQ(message.text(), "hello!");
}

struct database_file {
  std::size_t rows = 7;
};
std::size_t count_rows(const database_file& database) { return database.rows; }

// gyre/io/blocking.hpp
gyre::task<std::size_t> rows_of(const database_file& database) {
  auto counting = gyre::io::blocking([&] { return count_rows(database); });
  std::size_t rows = co_await std::move(counting);  // on the coroutine's own executor again
  co_return rows;
}

TEST(IoExamples, AFunctionThatBlocksRunsElsewhere) {
  gyre::loop loop;
  EXPECT_EQ(gyre::sync_wait(loop, rows_of(database_file())), 7U);
}

// gyre/io/error.hpp
gyre::task<> read_header(gyre::io::stream& stream, bool& complete) {
  std::array<std::byte, 8> header;
  auto read = co_await gyre::as_expected(stream.read_exactly(header));
  if (!read && read.error() == gyre::io::errc::unexpected_end) co_return;  // the peer hung up
  complete = true;
}

TEST(IoExamples, ErrorTellsAnUnexpectedEnd) {
  gyre::loop loop;
  auto [left, right] = gyre::test::unix_pair();
  gyre::io::stream stream(loop, std::move(left), gyre::io::handle_kind::socket);
  ASSERT_EQ(::write(right.get(), "short", 5), 5);
  right.reset();
  bool complete = false;
  gyre::sync_wait(loop, read_header(stream, complete));
  EXPECT_FALSE(complete);
}

// gyre/io/file.hpp
gyre::task<std::size_t> write_log(std::span<const std::byte> entry) {
  gyre::io::file log = co_await gyre::io::file::open("log", {.write = true, .create = true});
  std::array<std::byte, 4096> page;
  const std::size_t count = co_await log.read_at(page, 8192);  // less only at the end
  co_await log.write_at(entry, co_await log.size());
  co_return count;
}

gyre::task<std::string> read_config() {
  gyre::io::buffer config = co_await gyre::io::read_whole("config.toml");
  co_return std::string(config.text());
}

gyre::task<std::size_t> read_table() {
  const gyre::io::file table = co_await gyre::io::file::open("table", {.direct = true});
  gyre::io::aligned_buffer block(1 << 20, table.direct_alignment());
  const std::size_t got = co_await table.read_at(block.bytes(), 0);
  co_return got;
}

TEST(IoExamples, FileIsReadDirectly) {
  const header_examples::own_directory directory;
  std::ofstream("table") << "row";
  const auto got = gyre::sync_wait(gyre::as_expected(read_table()));
  if (!got) GTEST_SKIP() << "no O_DIRECT here: " << got.error().message();
  EXPECT_EQ(*got, 3U);
}

TEST(IoExamples, FileIsReadAndWritten) {
  const header_examples::own_directory directory;
  std::ofstream("log") << std::string(8200, '.');
  std::ofstream("config.toml") << "port = 7";
  gyre::loop loop;
  EXPECT_EQ(gyre::sync_wait(loop, write_log(bytes("entry"))), 8U);
  EXPECT_EQ(std::filesystem::file_size("log"), 8205U);
  EXPECT_EQ(gyre::sync_wait(loop, read_config()), "port = 7");
}

// gyre/io/directory.hpp
gyre::task<> find_logs(std::vector<std::string>& logs) {
  auto entries = gyre::io::read_directory("/var/log");
  while (gyre::io::directory_entry* entry = co_await entries.next()) {
    if (entry->type == gyre::io::file_type::regular) logs.push_back(entry->name);
  }
}

gyre::task<> find_all_logs(std::vector<std::string>& logs) {
  auto reader = co_await gyre::io::directory_reader::open("/var/log");
  for (;;) {
    const std::span<gyre::io::directory_entry> batch = co_await reader.next_batch();
    if (batch.empty()) break;
    for (gyre::io::directory_entry& entry : batch) logs.push_back(std::move(entry.name));
  }
}

TEST(IoExamples, DirectoryGivesItsEntries) {
  if (!std::filesystem::is_directory("/var/log")) GTEST_SKIP() << "no /var/log";
  std::vector<std::string> logs;
  std::vector<std::string> all;
  gyre::sync_wait(find_logs(logs));
  gyre::sync_wait(find_all_logs(all));
  EXPECT_LE(logs.size(), all.size());
}

// gyre/io/file_type.hpp
gyre::task<int> count_folders(std::string path) {
  int folders = 0;
  auto entries = gyre::io::read_directory(std::move(path));
  while (const gyre::io::directory_entry* entry = co_await entries.next()) {
    if (entry->type == gyre::io::file_type::directory) ++folders;
  }
  co_return folders;
}

// gyre/io/walk.hpp
gyre::task<> find_headers(std::vector<std::string>& headers) {
  auto tree = gyre::io::walk("src", {.descend = [](const gyre::io::walk_entry& directory) {
                               return directory.name() != ".git";
                             }});
  while (gyre::io::walk_entry* entry = co_await tree.next()) {
    if (entry->path.ends_with(".hpp")) headers.push_back(entry->path);
  }
}

TEST(IoExamples, WalkFindsHeaders) {
  const header_examples::own_directory directory;
  std::filesystem::create_directories("src/.git");
  std::filesystem::create_directories("src/io");
  for (const char* const path : {"src/.git/no.hpp", "src/io/file.hpp", "src/io/file.cpp"}) {
    std::ofstream(path) << path;
  }
  std::vector<std::string> headers;
  gyre::sync_wait(find_headers(headers));
  EXPECT_EQ(headers, std::vector<std::string>{"src/io/file.hpp"});
  EXPECT_EQ(gyre::sync_wait(count_folders("src")), 2);
}

// gyre/io/file_system.hpp
gyre::task<> rebuild_index() {
  gyre::io::file index =
      co_await gyre::io::file::open("cache/index.new", {.write = true, .create_new = true});
  co_await index.write_at("index", 0);
}

gyre::task<std::uint64_t> renew_cache() {
  co_await gyre::io::create_directories("cache/pages/7");
  if (!co_await gyre::io::exists("cache/index")) co_await rebuild_index();
  co_await gyre::io::rename("cache/index.new", "cache/index");
  const std::uint64_t removed = co_await gyre::io::remove_all("cache/pages");
  co_return removed;
}

TEST(IoExamples, FileSystemChangesNames) {
  const header_examples::own_directory directory;
  EXPECT_EQ(gyre::sync_wait(renew_cache()), 2U);
  EXPECT_TRUE(std::filesystem::exists("cache/index"));
  EXPECT_FALSE(std::filesystem::exists("cache/pages"));
}

// gyre/io/temporary.hpp
gyre::task<std::uint64_t> use_scratch(std::span<const std::byte> rows) {
  gyre::io::file scratch = co_await gyre::io::temporary_file();
  co_await scratch.write_at(rows, 0);
  co_return co_await scratch.size();
}

std::string unpacked;
gyre::task<> unpack(std::string archive, std::string to) {
  unpacked = to;
  co_await gyre::io::create_directory(to);
  co_await gyre::io::write_whole(to + "/1", archive);
}

gyre::task<> use_directory() {
  auto work = co_await gyre::io::temporary_directory::create();
  co_await unpack("pages.tar", work / "pages");
  co_await work.remove();
}

TEST(IoExamples, TemporaryFilesAreGone) {
  EXPECT_EQ(gyre::sync_wait(use_scratch(bytes("rows"))), 4U);
  gyre::sync_wait(use_directory());
  EXPECT_FALSE(std::filesystem::exists(unpacked));
}

// gyre/io/write_whole.hpp
gyre::task<> write_files(std::string_view report, std::string_view settings) {
  co_await gyre::io::write_whole("report.txt", report);
  co_await gyre::io::replace_whole("settings.json", settings);  // the old ones, or the new ones
}

TEST(IoExamples, WriteWholeWritesFiles) {
  const header_examples::own_directory directory;
  gyre::sync_wait(write_files("all is well", "{}"));
  EXPECT_EQ(std::filesystem::file_size("report.txt"), 11U);
  EXPECT_EQ(std::filesystem::file_size("settings.json"), 2U);
}

// gyre/io/mapped_file.hpp
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n')) {
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

gyre::task<bool> has_word() {
  const auto words = co_await gyre::io::mapped_file::open("words");
  const bool has_it = std::ranges::binary_search(lines_of(words.text()), "stream");
  co_return has_it;
}

TEST(IoExamples, MappedFileIsSearched) {
  const header_examples::own_directory directory;
  std::ofstream("words") << "loop\nstream\ntask\n";
  EXPECT_TRUE(gyre::sync_wait(has_word()));
}

// gyre/io/file_watcher.hpp and file_change.hpp
int reloads = 0;
void reload() {
  if (++reloads == 2) throw header_examples::seen_enough();
  std::ofstream("config.new") << "port = 8";
  std::filesystem::rename("config.new", "config.toml");
}

gyre::task<> reload_on_change(gyre::loop& loop) {
  gyre::io::file_watcher watcher(loop);
  watcher.add("config.toml", {.changes = gyre::io::file_change::closed_after_write |
                                         gyre::io::file_change::moved_to,
                              .by_name = true});
  for (;;) {
    const gyre::io::file_event event = co_await watcher.next();
    reload();  // also when an editor has replaced the file, and after an overflow
  }
}

gyre::task<> write_config() {
  co_await gyre::yield();
  std::ofstream("config.toml") << "port = 7";
}

std::string moved;
void move_entry(const std::string& from, const std::string& to) { moved = from + " to " + to; }

gyre::task<> follow_a_rename(gyre::loop& loop) {
  gyre::io::file_watcher watcher(loop);
  watcher.add(".");
  std::filesystem::rename("config.toml", "config.old");
  const gyre::io::file_event event = co_await watcher.next();
  if (event.kind == gyre::io::file_change::renamed) move_entry(event.old_name, event.name);
}

TEST(IoExamples, FileWatcherSeesWritesAndReplacements) {
  const header_examples::own_directory directory;
  gyre::loop loop;
  EXPECT_THROW(gyre::sync_wait(loop, gyre::when_all(reload_on_change(loop), write_config())),
               header_examples::seen_enough);
  gyre::sync_wait(loop, follow_a_rename(loop));
  EXPECT_EQ(moved, "config.toml to config.old");
}

// gyre/io/input.hpp
std::string handled;
void handle(std::span<const std::byte> message) { handled += text_of(message) + ";"; }

gyre::task<> send_in_pieces(gyre::net::endpoint to) {
  gyre::io::buffer message;
  for (const std::string_view each : {"one", "three"}) {
    message.append(static_cast<std::uint16_t>(each.size()));
    message.append(each);
  }
  auto connecting = gyre::net::connect(std::move(to));
  gyre::net::tcp_stream peer = co_await std::move(connecting);
  co_await peer.write_all(message.bytes().first(7));
  co_await gyre::yield();
  co_await peer.write_all(message.bytes().subspan(7));
  peer.shutdown(gyre::net::shutdown_side::send);
  std::array<std::byte, 1> room;
  std::size_t read = 0;
  do read = co_await peer.read_some(room);
  while (read != 0);
}

TEST(IoExamples, InputWaitsForTheRestOfAMessage) {
  handled.clear();
  gyre::loop loop;
  gyre::net::tcp_server server(loop);
  server.on_message([](gyre::net::tcp_connection&, gyre::io::input& input) {
    while (auto length = input.peek<std::uint16_t>()) {
      if (input.size() < sizeof *length + *length) break;  // the rest is still to come
      input.consume(sizeof *length);
      handle(input.take(*length));
    }
  });
  server.listen(header_examples::any_port());
  server.start();
  gyre::sync_wait(loop, send_in_pieces(server.local_endpoint()));
  EXPECT_EQ(handled, "one;three;");
}

// gyre/io/output_queue.hpp
TEST(IoExamples, OutputQueueIsWrittenInPieces) {
  auto [reader, writer] = gyre::test::pipe_pair();
  const int fd = writer.get();
  const std::string_view rest_that_the_socket_did_not_take = "rest";
  gyre::io::output_queue waiting;
  waiting.append(rest_that_the_socket_did_not_take);

  std::array<iovec, 64> pieces;  // once it is writable again
  const std::size_t count = waiting.gather(pieces);
  const ssize_t written = ::writev(fd, pieces.data(), static_cast<int>(count));
  if (written > 0) waiting.consume(static_cast<std::size_t>(written));
  EXPECT_EQ(written, 4);
  EXPECT_TRUE(waiting.empty());
}

// gyre/io/request.hpp
struct request_reader {
  static inline std::size_t used = 0;
  static void use(gyre::io::result what) { used = what.count(); }
  static void on_read(gyre::io::request&, gyre::io::result what) { use(what); }

  static void read(gyre::io::backend& backend, int fd, std::span<std::byte> buffer,
                   gyre::loop& loop) {
    gyre::io::handle socket(fd, gyre::io::handle_kind::stream_socket);
    backend.attach(socket);
    gyre::io::read_request reading(socket, buffer, &on_read);
    if (auto done = backend.start(reading)) use(*done);  // a result; else on_read is called
    while (used == 0) loop.run_once();
    backend.detach(socket);
  }
};

TEST(IoExamples, RequestIsDoneAtOnceOrReported) {
  gyre::loop loop;
  auto [left, right] = gyre::test::tcp_pair();
  ASSERT_EQ(::write(right.get(), "hello", 5), 5);
  std::array<std::byte, 16> room;
  request_reader::used = 0;
  request_reader::read(*loop.io(), left.get(), room, loop);
  EXPECT_EQ(request_reader::used, 5U);
}

// gyre/io/stream.hpp
gyre::task<> echo(gyre::io::stream& peer) {
  for (;;) {
    auto data = co_await peer.receive();  // in the loop's memory; while it waits, in none
    if (data.empty()) co_return;          // the peer has ended its side
    co_await peer.write_all(std::move(data));
  }
}

gyre::task<> read_three_times(gyre::io::stream& stream) {
  std::array<std::byte, 1> room;
  std::size_t first = co_await stream.read_some(room);               // throws system_error
  auto second = co_await gyre::as_expected(stream.read_some(room));  // gives std::expected
  std::size_t third = co_await gyre::with_timeout(stream.read_some(room), 2s);
  EXPECT_EQ(first, 1U);
  EXPECT_EQ(second, 1U);
  EXPECT_EQ(third, 1U);
}

gyre::task<> write_and_end(gyre::net::unix_stream& stream) {
  co_await stream.write_all("abc");
  stream.shutdown(gyre::net::shutdown_side::send);
}

TEST(IoExamples, StreamEchoes) {
  gyre::loop loop;
  auto [left, right] = gyre::net::stream_pair(loop);
  gyre::sync_wait(loop, gyre::when_all(write_and_end(left), echo(right), read_three_times(left)));
}

// gyre/io/terminal.hpp
gyre::task<std::byte> ask_for_a_key(gyre::loop& loop) {
  std::array<std::byte, 1> key{};
  gyre::io::stream keys = gyre::io::open_terminal(loop, STDIN_FILENO);
  const gyre::io::terminal_mode raw(keys.fd(), gyre::io::terminal_setting::raw);
  const gyre::io::terminal_extent screen = gyre::io::terminal_size(keys.fd());
  co_await keys.write_all("\x1b[" + std::to_string(screen.rows) + ";1H> ");
  const std::size_t count = co_await keys.read_some(key);  // Ctrl-C is a byte, too
  EXPECT_EQ(count, 1U);
  co_return key[0];
}

gyre::task<> type_a_key(gyre::io::stream& user) {
  std::array<std::byte, 9> prompt{};
  co_await user.read_exactly(prompt);
  EXPECT_EQ(text_of(prompt), "\x1b[25;1H> ");
  co_await user.write_all("\x03");
}

TEST(IoExamples, TerminalReadsAKey) {
  gyre::loop loop;
  gyre::unique_fd master(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_EQ(::grantpt(master.get()), 0);
  ASSERT_EQ(::unlockpt(master.get()), 0);
  const ::winsize size{.ws_row = 25, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(::ioctl(master.get(), TIOCSWINSZ, &size), 0);
  std::array<char, 64> name{};
  ASSERT_EQ(::ptsname_r(master.get(), name.data(), name.size()), 0);
  const gyre::unique_fd terminal(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  const gyre::unique_fd input(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_EQ(::dup2(terminal.get(), STDIN_FILENO), STDIN_FILENO);
  gyre::io::stream user(loop, std::move(master));
  const auto keys = gyre::sync_wait(loop, gyre::when_all(ask_for_a_key(loop), type_a_key(user)));
  EXPECT_EQ(std::get<0>(keys), std::byte{3});
  ::dup2(input.get(), STDIN_FILENO);
}

// gyre/io/uring_support.hpp
TEST(IoExamples, UringSupportSaysWhyNot) {
  const gyre::io::uring_support here = gyre::io::probe_uring();
  if (!here.usable) std::fprintf(stderr, "no io_uring: %s\n", here.reason.c_str());
  EXPECT_NE(here.usable, !here.reason.empty());
}

// gyre/io/process.hpp
gyre::task<bool> sort_in_reverse(gyre::loop& loop, gyre::io::buffer& sorted) {
  gyre::io::process sort(loop, {"sort", "-r"},
                         {.input = gyre::io::stdio::pipe(), .output = gyre::io::stdio::pipe()});
  co_await sort.input().write_all("a\nb\n");
  sort.input().close();  // the end of its input
  co_await sort.output().read_until(sorted, "a\n");
  gyre::io::exit_status status = co_await sort.wait();
  co_return status.success();
}

TEST(IoExamples, ProcessSorts) {
  gyre::loop loop;
  gyre::io::buffer sorted;
  EXPECT_TRUE(gyre::sync_wait(loop, sort_in_reverse(loop, sorted)));
  EXPECT_EQ(sorted.size(), 4U);
}

}  // namespace
}  // namespace io_test
