package hareline.jms;

/**
 * Where a broker listens and how to log in.
 *
 * <p>{@link #shared} is the broker that both suites talk to, named by the system properties {@code
 * broker.host}, {@code broker.port}, {@code broker.username}, {@code broker.password} and {@code
 * broker.vhost}; a {@link Daemon} is one that a case has for itself. Invariant: neither the host
 * nor the port changes in the life of a broker, restarts included.
 */
public class Broker {
  public final String host;
  public final int port;
  public final String username;
  public final String password;
  public final String vhost;

  protected Broker(String host, int port, String username, String password, String vhost) {
    this.host = host;
    this.port = port;
    this.username = username;
    this.password = password;
    this.vhost = vhost;
  }

  /** The broker that runs for the whole suite; no case may restart it. */
  public static Broker shared() {
    return new Broker(
        System.getProperty("broker.host", "127.0.0.1"),
        Integer.getInteger("broker.port", 5672),
        System.getProperty("broker.username", "guest"),
        System.getProperty("broker.password", "guest"),
        System.getProperty("broker.vhost", "/"));
  }

  /** True if the shared broker is not Hareline; then there is no command for a {@link Daemon}. */
  public static boolean isForeign() {
    return System.getProperty("broker.command", "").isEmpty();
  }
}
