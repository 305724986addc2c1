package android.provider;

import android.net.Uri;

/** API level 21. */
public final class DocumentsContract {
    private DocumentsContract() {}

    public static final class Document {
        public static final String COLUMN_DOCUMENT_ID = "document_id";
        public static final String COLUMN_DISPLAY_NAME = "_display_name";
        public static final String COLUMN_MIME_TYPE = "mime_type";
        public static final String MIME_TYPE_DIR = "vnd.android.document/directory";

        private Document() {}
    }

    public static native String getTreeDocumentId(Uri tree);

    public static native Uri buildChildDocumentsUriUsingTree(Uri tree, String parent);

    public static native Uri buildDocumentUriUsingTree(Uri tree, String document);
}
