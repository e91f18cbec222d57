package silf.jojo.config;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.xml.stream.Location;
import javax.xml.stream.XMLInputFactory;
import javax.xml.stream.XMLStreamConstants;
import javax.xml.stream.XMLStreamException;
import javax.xml.stream.XMLStreamReader;

/**
 * The XML form of a configuration: figure 6 of the paper with {@code rjavaJarPath} and our additions (spec/jojo,
 * configuration). A DOCTYPE is allowed and ignored; nothing is ever fetched or expanded because of it: entities other
 * than XML's own five are refused.
 */
final class XmlReader {
    /** The root and 16 levels below it (spec/jojo J1). */
    static final int DEPTH_MOST = 17;

    private static final Map<String, Set<String>> ATTRIBUTES = Map.of(
            "node", Set.of("host", "name", "spare"),
            "code", Set.of(),
            "invocation", Settings.INVOCATION,
            "fault", Settings.FAULT,
            "files", Settings.FILES);

    private final String file;
    private final List<String> lines;
    private final XMLStreamReader xml;
    /** Where the coming event begins: StAX tells only where an event ends. */
    private Location begins;

    private XmlReader(String file, byte[] text, XMLStreamReader xml) {
        this.file = file;
        this.lines = new String(text, StandardCharsets.UTF_8).lines().toList();
        this.xml = xml;
        this.begins = xml.getLocation();
    }

    static Draft read(String file, byte[] text) throws ConfigException {
        XMLInputFactory factory = XMLInputFactory.newDefaultFactory();
        factory.setProperty(XMLInputFactory.SUPPORT_DTD, false);
        factory.setProperty(XMLInputFactory.IS_SUPPORTING_EXTERNAL_ENTITIES, false);
        factory.setProperty(XMLInputFactory.IS_REPLACING_ENTITY_REFERENCES, false);
        factory.setProperty(XMLInputFactory.IS_COALESCING, false);
        factory.setXMLResolver((publicId, systemId, base, name) -> {
            throw new XMLStreamException("nothing outside this file is read");
        });
        try {
            XMLStreamReader xml = factory.createXMLStreamReader(new ByteArrayInputStream(text));
            try {
                return new XmlReader(file, text, xml).document();
            } finally {
                xml.close();
            }
        } catch (XMLStreamException e) {
            Location at = e.getLocation();
            Place place = at == null ? new Place(file, 1, 1) : place(file, at);
            throw new ConfigException(place, "this is no well-formed XML: " + lastLine(e.getMessage()));
        }
    }

    private Draft document() throws XMLStreamException, ConfigException {
        Deque<Draft> open = new ArrayDeque<>();
        Draft root = null;
        while (true) {
            begins = xml.getLocation();
            if (!xml.hasNext()) {
                break;
            }
            switch (xml.next()) {
                case XMLStreamConstants.START_ELEMENT -> {
                    Draft made = element(open.peek());
                    if (made == null) {
                        continue;
                    }
                    if (open.isEmpty()) {
                        root = made;
                    } else {
                        open.peek().children.add(made);
                    }
                    open.push(made);
                    if (open.size() > DEPTH_MOST) {
                        throw new ConfigException(made.place, "nodes are nested deeper than " + DEPTH_MOST);
                    }
                }
                case XMLStreamConstants.END_ELEMENT -> open.pop();
                case XMLStreamConstants.CHARACTERS, XMLStreamConstants.CDATA -> {
                    if (!xml.isWhiteSpace()) {
                        throw new ConfigException(here(), "text between nodes: only <code> holds text");
                    }
                }
                case XMLStreamConstants.ENTITY_REFERENCE -> throw entity();
                default -> { } // comments, instructions, DOCTYPE
            }
        }
        if (root == null) {
            throw new ConfigException(here(), "there is no <node>");
        }
        return root;
    }

    /** A new node; or null, when the element was a part of {@code parent} and has been read to its end. */
    private Draft element(Draft parent) throws XMLStreamException, ConfigException {
        String element = xml.getLocalName();
        Place place = here();
        Set<String> known = ATTRIBUTES.get(element);
        if (known == null) {
            throw new ConfigException(place, "<" + element + "> is unknown; a node holds <code>, <invocation>, <fault>, <files>, <node>");
        }
        if (parent == null && !element.equals("node")) {
            throw new ConfigException(place, "the outermost element is <" + element + ">; it has to be <node>");
        }
        boolean node = element.equals("node");
        if (!node && !parent.children.isEmpty()) {
            throw new ConfigException(place, "<" + element + "> stands after a <node>; it belongs before the first");
        }
        Draft draft = node || element.equals("files") ? new Draft(place) : parent;
        for (int i = 0; i < xml.getAttributeCount(); i++) {
            String name = xml.getAttributeLocalName(i);
            if (!known.contains(name)) {
                throw new ConfigException(place, "<" + element + "> has no attribute \"" + name + "\""
                        + (known.isEmpty() ? "" : "; it has " + String.join(", ", known.stream().sorted().toList())));
            }
            draft.set(place, Settings.key(element, name), xml.getAttributeValue(i));
        }
        if (node) {
            return draft;
        }
        String text = text(element);
        if (element.equals("files")) {
            parent.files.add(draft);
        }
        if (element.equals("code")) {
            draft.set(place, "code", text.strip());
        } else if (!text.isBlank()) {
            throw new ConfigException(place, "<" + element + "> holds no text");
        }
        return null;
    }

    /** The text of an element that holds nothing else, to its end tag. */
    private String text(String element) throws XMLStreamException, ConfigException {
        StringBuilder text = new StringBuilder();
        while (true) {
            begins = xml.getLocation();
            switch (xml.next()) {
                case XMLStreamConstants.END_ELEMENT -> {
                    return text.toString();
                }
                case XMLStreamConstants.START_ELEMENT ->
                        throw new ConfigException(here(), "<" + xml.getLocalName() + "> inside <" + element + ">");
                case XMLStreamConstants.ENTITY_REFERENCE -> throw entity();
                case XMLStreamConstants.CHARACTERS, XMLStreamConstants.CDATA, XMLStreamConstants.SPACE -> text.append(xml.getText());
                default -> { } // comments, instructions
            }
        }
    }

    private ConfigException entity() {
        return new ConfigException(here(), "the entity &" + xml.getLocalName() + "; is not expanded: write what it stands for");
    }

    /** The parser may have taken the < already, to see that text ends there. */
    private Place here() {
        Place place = place(file, begins);
        String line = place.line() <= lines.size() ? lines.get(place.line() - 1) : "";
        int before = place.column() - 2;
        boolean taken = before >= 0 && before < line.length() && line.charAt(before) == '<';
        return taken ? new Place(file, place.line(), place.column() - 1) : place;
    }

    private static Place place(String file, Location at) {
        return new Place(file, Math.max(1, at.getLineNumber()), Math.max(1, at.getColumnNumber()));
    }

    /** The JDK repeats the place on a line of its own. */
    private static String lastLine(String message) {
        return message.substring(message.lastIndexOf('\n') + 1).replaceFirst("^Message: ", "");
    }
}
