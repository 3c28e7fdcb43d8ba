package hareline.jms.rabbitmq;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.jms.admin.RMQConnectionFactory;
import hareline.jms.Daemon;
import hareline.jms.Observer;
import hareline.jms.Patience;
import jakarta.jms.CompletionListener;
import jakarta.jms.Connection;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TemporaryQueue;
import jakarta.jms.Topic;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A broker that is killed, or restarted, below a client that recovers by itself. */
class FailoverTest {
  private final AtomicInteger recoveries = new AtomicInteger();
  private final BlockingQueue<JMSException> raised = new LinkedBlockingQueue<>();
  private Daemon daemon;
  private Connection connection;
  private Session session;

  @BeforeEach
  void connectToADaemon() throws Exception {
    daemon = Daemon.start();
    connection = connect();
    session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
  }

  @AfterEach
  void stopTheDaemon() throws Exception {
    try {
      if (connection != null) {
        connection.close();
      }
    } finally {
      if (daemon != null) {
        daemon.close();
      }
    }
  }

  private Connection connect() throws JMSException {
    RMQConnectionFactory factory = RabbitCase.factory(daemon);
    factory.setAmqpConnectionFactoryPostProcessor(
        amqp -> {
          amqp.setNetworkRecoveryInterval(50);
          amqp.setConnectionTimeout(2_000);
        });
    factory.setAmqpConnectionPostProcessor(
        amqp ->
            ((Recoverable) amqp)
                .addRecoveryListener(
                    new RecoveryListener() {
                      @Override
                      public void handleRecovery(Recoverable recovered) {
                        recoveries.incrementAndGet();
                      }

                      @Override
                      public void handleRecoveryStarted(Recoverable recovering) {
                        // only its end counts
                      }
                    }));
    Connection made = factory.createConnection();
    made.setExceptionListener(raised::add);
    made.start();
    return made;
  }

  private void killAndRecover() throws Exception {
    daemon.kill();
    daemon.startAgain();
    Patience.until(() -> recoveries.get() > 0, "the connection has recovered");
  }

  /** Send and wait until the broker has confirmed each. */
  private void sendSafely(Queue queue, String... texts) throws Exception {
    AtomicInteger confirmed = new AtomicInteger();
    Session own = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    MessageProducer producer = own.createProducer(queue);
    for (String text : texts) {
      producer.send(
          own.createTextMessage(text),
          new CompletionListener() {
            @Override
            public void onCompletion(Message message) {
              confirmed.incrementAndGet();
            }

            @Override
            public void onException(Message message, Exception exception) {
              raised.add(new JMSException(exception.toString()));
            }
          });
    }
    Patience.until(() -> confirmed.get() == texts.length, "all are confirmed");
    own.close();
  }

  @Test
  void afterAKillConfirmedMessagesAreThere() throws Exception {
    Queue queue = session.createQueue("kept");
    sendSafely(queue, RabbitCase.numbers(0, 50));
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals("0", RabbitCase.takeText(consumer));
    RabbitCase.settle(session); // its acknowledgement has arrived
    killAndRecover();
    // The acknowledgement may have been lost with the broker: "0" may come again, nothing else may.
    String next = RabbitCase.takeText(consumer);
    if (next.equals("0")) {
      next = RabbitCase.takeText(consumer);
    }
    assertEquals("1", next);
    assertEquals(List.of(RabbitCase.numbers(2, 50)), RabbitCase.takeTexts(consumer, 48));
    RabbitCase.assertNothing(consumer);
  }

  @Test
  void afterAKillCommittedMessagesAreThereAndOthersAreNot() throws Exception {
    Queue queue = session.createQueue("kept");
    Session own = connection.createSession(true, Session.SESSION_TRANSACTED);
    MessageProducer producer = own.createProducer(queue);
    producer.send(own.createTextMessage("committed"));
    producer.send(own.createTextMessage("transient"), DeliveryMode.NON_PERSISTENT, 4, 0);
    own.commit();
    producer.send(own.createTextMessage("not committed"));
    killAndRecover();
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals("committed", RabbitCase.takeText(consumer));
    RabbitCase.assertNothing(consumer);
    producer.send(own.createTextMessage("later"));
    own.commit();
    assertEquals("later", RabbitCase.takeText(consumer));
  }

  @Test
  void aListenerGoesOnAfterAKill() throws Exception {
    Queue queue = session.createQueue("listened");
    Session own = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    RabbitCase.Inbox inbox = new RabbitCase.Inbox(own.createConsumer(queue));
    RabbitCase.send(session, queue, "before");
    assertEquals("before", RabbitCase.text(inbox.take()));
    killAndRecover();
    RabbitCase.send(session, queue, "after");
    Message next = inbox.take();
    while (next.getJMSRedelivered()) {
      next = inbox.take(); // "before", whose acknowledgement was lost
    }
    assertEquals("after", RabbitCase.text(next));
  }

  @Test
  void theExceptionListenerHearsOfAKill() throws Exception {
    daemon.kill();
    Patience.until(() -> !raised.isEmpty(), "the exception listener is called");
    daemon.startAgain();
    Patience.until(() -> recoveries.get() > 0, "the connection has recovered");
  }

  @Test
  void anIdleClientReconnectsAfterARestart() throws Exception {
    TemporaryQueue temporary = session.createTemporaryQueue();
    MessageConsumer ofTemporary = session.createConsumer(temporary);
    Topic topic = session.createTopic("news");
    MessageConsumer ofTopic = session.createConsumer(topic);
    daemon.stop();
    daemon.startAgain();
    Patience.until(() -> recoveries.get() > 0, "the connection has recovered");
    RabbitCase.send(session, temporary, "1");
    assertEquals("1", RabbitCase.takeText(ofTemporary));
    RabbitCase.send(session, topic, "2");
    assertEquals("2", RabbitCase.takeText(ofTopic));
  }

  @Tag("M17")
  @Test
  void selectorsGoOnAfterAKill() throws Exception {
    Topic topic = session.createTopic("news");
    MessageConsumer plain = session.createConsumer(topic, "n = 1");
    MessageConsumer durable = session.createDurableConsumer(topic, "durable", "n = 2", false);
    killAndRecover();
    for (int i = 0; i < 3; i++) {
      Message message = session.createTextMessage("n is " + i);
      message.setIntProperty("n", i);
      session.createProducer(topic).send(message);
    }
    assertEquals("n is 1", RabbitCase.takeText(plain));
    assertEquals("n is 2", RabbitCase.takeText(durable));
    RabbitCase.settle(session);
    RabbitCase.assertNothing(plain);
    RabbitCase.assertNothing(durable);
  }

  @Tag("M17")
  @Test
  void aDurableSelectorWorksWithoutItsClient() throws Exception {
    Topic topic = session.createTopic("news");
    session.createDurableConsumer(topic, "durable", "n = 2", false);
    connection.close();
    daemon.kill();
    daemon.startAgain();
    connection = connect();
    session = connection.createSession(Session.AUTO_ACKNOWLEDGE);
    for (int i = 0; i < 3; i++) {
      Message message = session.createTextMessage("n is " + i);
      message.setIntProperty("n", i);
      session.createProducer(session.createTopic("news")).send(message);
    }
    RabbitCase.settle(session);
    try (Observer observer = new Observer(daemon)) {
      assertEquals(1, observer.ready("durable"));
    }
    assertEquals(
        "n is 2",
        RabbitCase.takeText(session.createDurableConsumer(topic, "durable", "n = 2", false)));
  }

  @Tag("S9")
  @Test
  void aDelayedMessageSurvivesAKill() throws Exception {
    Queue queue = session.createQueue("delayed");
    Session own = connection.createSession(true, Session.SESSION_TRANSACTED);
    MessageProducer producer = own.createProducer(queue);
    producer.setDeliveryDelay(1_500);
    long sentAtMs = System.currentTimeMillis();
    producer.send(own.createTextMessage("delayed"));
    own.commit();
    killAndRecover();
    assertEquals("delayed", RabbitCase.takeText(session.createConsumer(queue)));
    long tookMs = System.currentTimeMillis() - sentAtMs;
    assertTrue(tookMs >= 1_500, () -> "it came after " + tookMs + " ms");
  }
}
