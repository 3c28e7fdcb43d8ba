package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.Socket;
import java.util.Properties;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import javax.naming.Context;
import javax.naming.InitialContext;
import org.apache.qpid.AMQSecurityException;
import org.apache.qpid.client.AMQConnection;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** From the protocol header to an open connection, and what is refused on the way. */
class ConnectionTest extends QpidCase {

  private void roundTrip(Connection connection, Syntax syntax) throws Exception {
    connection.start();
    Session session = autoSession(connection);
    String name = name("round-trip");
    Queue queue = session.createQueue(syntax.queue(name));
    MessageConsumer consumer = session.createConsumer(queue);
    assertNextIs("to " + name, session, queue, consumer);
    Topic topic = session.createTopic(syntax.topic(name));
    assertNextIs("topic " + name, session, topic, session.createConsumer(topic));
  }

  @Tag("M1")
  @Test
  void theDefaultVersionFallsBackTo091() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      Connection connection = open("0-10", url());
      assertEquals("0-91", ((AMQConnection) connection).getProtocolVersion().toString());
      roundTrip(connection, syntax);
    }
  }

  @Tag("M1")
  @Test
  void version091IsServedAtOnce() throws Exception {
    for (Syntax syntax : Syntax.values()) {
      roundTrip(open("0-9-1", url()), syntax);
      roundTrip(open("0-91", url()), syntax);
    }
  }

  @Tag("M1")
  @Test
  void olderVersionsAreServedOrRedirected() throws Exception {
    for (String version : new String[] {"0-9", "0-8"}) {
      roundTrip(open(version, url()), Syntax.BURL);
    }
  }

  @Tag("M1")
  @Test
  void aProbeIsAnsweredByOurHeaderAndTheEnd() throws Exception {
    byte[][] probes = {{1, 1, 0, 10}, {1, 1, 8, 0}};
    for (byte[] version : probes) {
      try (Socket socket = new Socket(broker.host, broker.port)) {
        socket.setSoTimeout((int) PATIENCE_MS);
        socket.getOutputStream().write(new byte[] {'A', 'M', 'Q', 'P'});
        socket.getOutputStream().write(version);
        InputStream answer = socket.getInputStream();
        assertArrayEquals(new byte[] {'A', 'M', 'Q', 'P', 0, 0, 9, 1}, answer.readNBytes(8));
        assertEquals(-1, answer.read(), "the end");
      }
    }
  }

  @Tag("M2")
  @Test
  void framesHaveALimitThatTheClientCanUse() throws Exception {
    AMQConnection connection = (AMQConnection) connect();
    long frameMax = connection.getMaximumFrameSize();
    assertTrue(frameMax >= 4096 && frameMax <= 1 << 20, "" + frameMax);
    assertTrue(connection.getMaximumChannelCount() >= 1);
  }

  @Tag("M3")
  @Test
  void aVirtualHostIsFoundBehindASlash() throws Exception {
    onlyHareline();
    // The client says "/other" for the virtual host "other".
    for (Syntax syntax : Syntax.values()) {
      roundTrip(open(syntax.version, url().vhost("other")), syntax);
      roundTrip(open(syntax.version, url().vhost("")), syntax);
    }
  }

  @Tag("M3")
  @Test
  void virtualHostsAreApart() throws Exception {
    onlyHareline();
    Connection there = connect(url().vhost("other"));
    Session session = autoSession(there);
    String name = name("apart");
    Queue queue = session.createQueue(Syntax.BURL.queue(name));
    session.createConsumer(queue).close();
    assertTrue(!observer.exists(name), "it is in the other virtual host");
  }

  @Tag("M3")
  @Test
  void anUnknownVirtualHostIsRefused() throws Exception {
    JMSException failure =
        assertThrows(JMSException.class, () -> connect(url().vhost("no-such-virtual-host")));
    assertTrue(failure.getMessage().contains("no-such-virtual-host"), failure.getMessage());
  }

  @Tag("S6")
  @Test
  void aWrongPasswordIsASecurityException() throws Exception {
    for (String mechanism : new String[] {"", "PLAIN", "AMQPLAIN", "SCRAM-SHA-256"}) {
      for (Syntax syntax : Syntax.values()) {
        Url url = url().login(broker.username, "wrong");
        if (!mechanism.isEmpty()) {
          url.brokerOption("sasl_mechs", mechanism);
        }
        assertRefused(() -> open(syntax.version, url));
      }
    }
  }

  @Tag("S6")
  @Test
  void anUnknownUserIsASecurityException() throws Exception {
    assertRefused(() -> connect(url().login("nobody-of-this-name", "x")));
  }

  /** The client wraps its own exception for 403 in a JMSException, with the code in it. */
  private static void assertRefused(Executable connecting) {
    JMSException failure = assertThrows(JMSException.class, connecting);
    assertEquals(403, cause(failure, AMQSecurityException.class).getErrorCode());
    assertTrue(failure.getMessage().contains("ACCESS_REFUSED"), failure.getMessage());
  }

  @Tag("S10")
  @Test
  void eachMechanismLetsIn() throws Exception {
    for (String mechanism : new String[] {"SCRAM-SHA-256", "PLAIN", "AMQPLAIN"}) {
      roundTrip(open("0-10", url().brokerOption("sasl_mechs", mechanism)), Syntax.ADDR);
    }
  }

  @Tag("S10")
  @Test
  void noMechanismIsOfferedThatTheClientWouldFailWith() throws Exception {
    for (String mechanism : new String[] {"EXTERNAL", "GSSAPI", "CRAM-MD5", "CRAM-MD5-HASHED"}) {
      assertThrows(
          JMSException.class,
          () -> connect(url().brokerOption("sasl_mechs", mechanism)),
          mechanism + " is not offered");
    }
  }

  @Tag("M14")
  @Test
  void anIdleConnectionLivesByItsHeartbeats() throws Exception {
    Connection connection = open("0-10", url().brokerOption("heartbeat", 1));
    connection.start();
    Session session = autoSession(connection);
    Queue queue = queue(session, name("heartbeat"));
    MessageConsumer consumer = session.createConsumer(queue);
    // Waits on the socket for longer than both sides would bear in silence.
    assertEquals(null, consumer.receive(2_500));
    assertNextIs("alive", session, queue, consumer);
    assertTrue(raised.isEmpty(), raised::toString);
  }

  @Test
  void jndiNamesConnectionsAndDestinations() throws Exception {
    String name = name("jndi");
    Properties jndi = new Properties();
    jndi.put(
        Context.INITIAL_CONTEXT_FACTORY,
        "org.apache.qpid.jndi.PropertiesFileInitialContextFactory");
    jndi.put("connectionfactory.cf", url().toString());
    jndi.put("queue.q", name);
    jndi.put("topic.t", name);
    jndi.put("destination.addr", Syntax.ADDR.queue(name + "-addr"));
    jndi.put("destination.burl", Syntax.BURL.queue(name + "-burl"));
    Context context = new InitialContext(jndi);
    ConnectionFactory factory = (ConnectionFactory) context.lookup("cf");
    Connection connection = factory.createConnection();
    try {
      connection.start();
      Session session = autoSession(connection);
      for (String entry : new String[] {"q", "t", "addr", "burl"}) {
        javax.jms.Destination there = (javax.jms.Destination) context.lookup(entry);
        MessageConsumer consumer = session.createConsumer(there);
        assertNextIs("by " + entry, session, there, consumer);
      }
    } finally {
      connection.close();
    }
  }

  @Test
  void manySessionsShareAConnection() throws Exception {
    Connection connection = connect();
    Session sender = autoSession(connection);
    for (int i = 0; i < 50; i++) {
      Session session = autoSession(connection);
      Queue queue = queue(session, name("session"));
      assertNextIs("" + i, sender, queue, session.createConsumer(queue));
      if (i % 2 == 0) {
        session.close();
      }
    }
  }
}
