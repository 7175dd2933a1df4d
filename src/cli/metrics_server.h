// A text served over HTTP: GET /metrics and nothing else, one connection at a time, for a Prometheus that scrapes now
// and then. It reads no more than a header's worth, waits no longer than two seconds, and knows no users: by default
// only this machine reaches it.
#pragma once

#include <mutex>
#include <string>
#include <thread>

namespace zplan {

// The whole response to the head of a request ("GET /metrics HTTP/1.1\r\n..."): 200, 400, 404 or 405.
std::string http_response(const std::string& request, const std::string& metrics);

class MetricsServer {
 public:
  // `address`: "127.0.0.1:9400", "[::1]:9400", "localhost:9400"; port 0 takes a free one. Listens when it returns.
  // Throws InputError naming --listen.
  explicit MetricsServer(const std::string& address);
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;
  ~MetricsServer();

  void publish(std::string text);
  std::string url() const { return url_; }        // "http://127.0.0.1:9400/metrics"
  bool only_this_machine() const { return local_; }

 private:
  void serve();
  void answer(int connection);

  int listener_ = -1, stop_[2] = {-1, -1};
  std::string url_;
  bool local_ = true;
  std::mutex mutex_;
  std::string text_;                              // guarded by mutex_
  std::thread thread_;
};

}  // namespace zplan
