package hareline.jms.qpid;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Enumeration;
import java.util.List;
import javax.jms.Connection;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** QueueBrowser: x-filter-no-consume and x-filter-auto-close. */
abstract class BrowserCases extends QpidCase {

  @Tag("M9")
  @Test
  void anEmptyQueueIsBrowsedToItsEnd() throws Exception {
    Session session = autoSession(connect());
    QueueBrowser browser = session.createBrowser(queue(session, name("browse-empty")));
    assertEquals(List.of(), browse(browser));
    assertEquals(List.of(), browse(browser), "a second enumeration");
    browser.close();
  }

  @Tag("M9")
  @Test
  void browsingShowsAllAndTakesNothing() throws Exception {
    for (int prefetch : new int[] {0, 1, 500}) {
      Session session = autoSession(connect(url().option("maxprefetch", prefetch)));
      String name = name("browse-all");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 10);
      QueueBrowser browser = session.createBrowser(queue);
      assertEquals(numbers(0, 10), browse(browser), "prefetch " + prefetch);
      assertEquals(numbers(0, 10), browse(browser), "prefetch " + prefetch);
      browser.close();
      assertEquals(10, observer.ready(name), "prefetch " + prefetch);
      MessageConsumer consumer = session.createConsumer(queue);
      Message first = receive(consumer);
      assertEquals("0", text(first));
      assertFalse(first.getJMSRedelivered(), "browsing leaves no trace");
      assertEquals(numbers(1, 10), receiveTexts(consumer, 9));
    }
  }

  @Tag("M9")
  @Test
  void browsingSelects() throws Exception {
    Session session = autoSession(connect());
    String name = name("browse-selected");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 10);
    QueueBrowser browser = session.createBrowser(queue, "n BETWEEN 3 AND 5 OR n = 9");
    assertEquals(List.of("3", "4", "5", "9"), browse(browser));
    browser.close();
    QueueBrowser none = session.createBrowser(queue, "n > 100");
    assertEquals(List.of(), browse(none));
    none.close();
    assertEquals(10, observer.ready(name));
  }

  @Tag("M9")
  @Test
  void whatIsWithAConsumerIsNotShown() throws Exception {
    Connection connection = connect(url().option("maxprefetch", 1));
    Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
    Queue queue = queue(session, name("browse-rest"));
    sendNumbers(session, queue, 4);
    MessageConsumer consumer = session.createConsumer(queue);
    assertEquals("0", receiveText(consumer));
    Session other = autoSession(connection);
    assertEquals(numbers(1, 4), browse(other.createBrowser(queue)));
    session.close();
    assertEquals(numbers(0, 4), browse(other.createBrowser(queue)), "it came back");
  }

  @Tag("M9")
  @Test
  void aManyTimesLargerQueueThanThePrefetchIsShown() throws Exception {
    Session session = autoSession(connect(url().option("maxprefetch", 5)));
    Queue queue = queue(session, name("browse-many"));
    sendNumbers(session, queue, 300);
    assertEquals(numbers(0, 300), browse(session.createBrowser(queue)));
  }

  @Tag("M9")
  @Test
  void transactedSessionsBrowseToo() throws Exception {
    Session session = transacted(connect());
    String name = name("browse-tx");
    Queue queue = queue(session, name);
    sendNumbers(session, queue, 3);
    session.commit();
    QueueBrowser browser = session.createBrowser(queue);
    assertEquals(numbers(0, 3), browse(browser));
    browser.close();
    session.rollback();
    assertEquals(3, observer.ready(name));
  }

  @Tag("S4")
  @Test
  void aBrowserMayBeClosedEarly() throws Exception {
    for (int mode : new int[] {Session.AUTO_ACKNOWLEDGE, Session.CLIENT_ACKNOWLEDGE}) {
      Connection connection = connect();
      Session session = connection.createSession(false, mode);
      String name = name("browse-early");
      Queue queue = queue(session, name);
      sendNumbers(session, queue, 200);
      QueueBrowser browser = session.createBrowser(queue);
      Enumeration<?> messages = browser.getEnumeration();
      assertTrue(messages.hasMoreElements());
      assertEquals("0", text((Message) messages.nextElement()));
      // The client rejects what it had prefetched, with tags that no message waits for.
      browser.close();
      assertEquals(200, observer.ready(name));
      MessageConsumer consumer = session.createConsumer(queue);
      assertEquals(numbers(0, 200), receiveTexts(consumer, 200), "mode " + mode);
      assertTrue(raised.isEmpty(), raised::toString);
    }
  }

  @Tag("S4")
  @Test
  void aTransactedBrowserMayBeClosedEarly() throws Exception {
    Session session = transacted(connect());
    Queue queue = queue(session, name("browse-early-tx"));
    sendNumbers(session, queue, 50);
    session.commit();
    QueueBrowser browser = session.createBrowser(queue);
    Enumeration<?> messages = browser.getEnumeration();
    assertEquals("0", text((Message) messages.nextElement()));
    browser.close();
    session.rollback();
    assertEquals(numbers(0, 50), receiveTexts(session.createConsumer(queue), 50));
    session.commit();
  }
}
